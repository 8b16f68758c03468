import { formatAmount } from "../../format/numbers";
import { None } from "../../ui/Values";

export function Cost({ usd }: { readonly usd: number | null }) {
  return usd === null ? <None /> : <span>{formatAmount("llm_cost_usd", usd)}</span>;
}
