/** The machine, its workers, who may do what, and what was asked of the server. */
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { whoQuery } from "../../api/queries/access";
import { Stack } from "../../ui/Layout";
import { PageHeader } from "../../ui/PageHeader";
import { Tabs } from "../../ui/Tabs";
import { AuditPanel } from "./AuditPanel";
import { MachinePanel } from "./MachinePanel";
import { TokensPanel } from "./TokensPanel";

const route = getRouteApi("/system");

export function SystemPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: who } = useQuery(whoQuery());
  const is_admin = who?.scopes.includes("admin") === true;
  return (
    <>
      <PageHeader title="System" />
      <Stack>
        <Tabs
          label="Parts of the system"
          chosen={search.tab}
          onChoose={(tab) => void navigate({ search: { tab }, replace: true })}
          panels={[
            { id: "machine", label: "Machine", content: () => <MachinePanel /> },
            ...(is_admin
              ? [
                  { id: "tokens", label: "Tokens", content: () => <TokensPanel /> },
                  { id: "audit", label: "Audit", content: () => <AuditPanel /> },
                ]
              : []),
          ]}
        />
      </Stack>
    </>
  );
}
