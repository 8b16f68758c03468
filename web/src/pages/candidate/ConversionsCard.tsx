/** What was made of a promoted model: each conversion, how it was judged, its figures. */
import type { Conversion } from "../../api/types";
import { figureText, figureTitle, methodText } from "../../format/conversions";
import { visible } from "../../format/text";
import { StateBadge } from "../../ui/Badge";
import { Card } from "../../ui/Card";
import { DataTable, type Column } from "../../ui/DataTable";
import { KeyValue } from "../../ui/KeyValue";
import { Digest, NumberValue } from "../../ui/Values";

type Figure = Conversion["figures"][number];

const COLUMNS: readonly Column<Figure>[] = [
  { id: "name", title: "Measured", width: 150, grows: true, cell: (row) => figureTitle(row.name) },
  {
    id: "unconverted",
    title: "Unconverted",
    width: 110,
    isNumber: true,
    cell: (row) => figureText(row.name, row.unconverted),
  },
  {
    id: "converted",
    title: "Converted",
    width: 110,
    isNumber: true,
    cell: (row) => figureText(row.name, row.converted),
  },
  {
    id: "ratio",
    title: "Ratio",
    width: 80,
    isNumber: true,
    cell: (row) => <NumberValue value={row.ratio} digits={3} />,
  },
];

export function ConversionsCard({ conversion }: { readonly conversion: Conversion }) {
  return (
    <Card
      title={`Conversion: ${methodText(conversion.method)}`}
      note={conversion.conversion}
      actions={<StateBadge state={conversion.state} reason={conversion.reason} />}
    >
      <KeyValue
        facts={[
          conversion.detail !== "" && { name: "Judged", value: visible(conversion.detail) },
          conversion.converted !== null && {
            name: "Artifact",
            value: <Digest value={conversion.converted} />,
          },
        ]}
      />
      {conversion.figures.length > 0 && (
        <DataTable<Figure>
          label={`Figures of ${methodText(conversion.method)}`}
          columns={COLUMNS}
          rows={conversion.figures}
          rowKey={(row) => row.name}
        />
      )}
    </Card>
  );
}
