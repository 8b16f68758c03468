import { useNavigate } from "@tanstack/react-router";
import { useCallback } from "react";
import type { ChartClick } from "../../charts/Chart";

/** A click on a mark opens its trial. */
export function useOpenTrial(study: string): (click: ChartClick) => void {
  const navigate = useNavigate();
  return useCallback(
    ({ data }: ChartClick) => {
      const number = (data as { number?: unknown } | null)?.number;
      if (typeof number !== "number") return;
      void navigate({
        to: "/studies/$study/trials/$number",
        params: { study, number: String(number) },
      });
    },
    [navigate, study],
  );
}
