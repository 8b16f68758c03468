import { Link } from "@tanstack/react-router";
import { oneLine } from "../../format/text";
import { Clipped } from "../../ui/Values";

export function StudyLink({ study, name }: { readonly study: string; readonly name: string }) {
  return (
    <Link to="/studies/$study" params={{ study }}>
      <Clipped>{oneLine(name, 100)}</Clipped>
    </Link>
  );
}
