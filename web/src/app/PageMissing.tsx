import { Link } from "@tanstack/react-router";
import { Card } from "../ui/Card";
import { Empty } from "../ui/States";

export function PageMissing() {
  return (
    <Card>
      <Empty icon="question" title="There is no such page" isPage>
        <Link to="/studies">All studies</Link>
      </Empty>
    </Card>
  );
}
