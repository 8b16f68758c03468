/** The plots of a study's analysis: computed and sampled by the server. */
import { queryOptions } from "@tanstack/react-query";
import { api, bodyOf } from "../client";
import { keys } from "../keys";

/** None named: all of them. */
const named = (params: readonly string[] | undefined) =>
  params === undefined ? {} : { param: [...params] };

export const parallelQuery = (study: string, params?: readonly string[]) =>
  queryOptions({
    queryKey: keys.plot(study, "parallel", { params }),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/plots/parallel", {
          signal,
          params: { path: { study }, query: named(params) },
        }),
      ),
    placeholderData: (shown) => shown,
  });

export const sliceQuery = (study: string, params?: readonly string[]) =>
  queryOptions({
    queryKey: keys.plot(study, "slice", { params }),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/plots/slice", {
          signal,
          params: { path: { study }, query: named(params) },
        }),
      ),
    placeholderData: (shown) => shown,
  });

export const importancesQuery = (study: string) =>
  queryOptions({
    queryKey: keys.plot(study, "importances"),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/plots/importances", {
          signal,
          params: { path: { study } },
        }),
      ),
  });

export const contourQuery = (study: string, x: string, y: string) =>
  queryOptions({
    queryKey: keys.plot(study, "contour", { x, y }),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/plots/contour", {
          signal,
          params: { path: { study }, query: { x, y } },
        }),
      ),
    placeholderData: (shown) => shown,
  });

export const edfQuery = (study: string) =>
  queryOptions({
    queryKey: keys.plot(study, "edf"),
    queryFn: ({ signal }) =>
      bodyOf(api.GET("/api/v1/studies/{study}/plots/edf", { signal, params: { path: { study } } })),
  });

export const paretoQuery = (study: string, metrics: readonly string[]) =>
  queryOptions({
    queryKey: keys.plot(study, "pareto", { metrics }),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/plots/pareto", {
          signal,
          params: { path: { study }, query: { metric: [...metrics] } },
        }),
      ),
    placeholderData: (shown) => shown,
  });

export const intermediateQuery = (study: string, metric: string | undefined) =>
  queryOptions({
    queryKey: keys.plot(study, "intermediate", { metric }),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/plots/intermediate", {
          signal,
          params: { path: { study }, query: metric === undefined ? {} : { metric } },
        }),
      ),
    placeholderData: (shown) => shown,
  });

export const timelineQuery = (study: string, before: number | undefined) =>
  queryOptions({
    queryKey: keys.plot(study, "timeline", { before }),
    queryFn: ({ signal }) =>
      bodyOf(
        api.GET("/api/v1/studies/{study}/plots/timeline", {
          signal,
          params: { path: { study }, query: before === undefined ? {} : { before } },
        }),
      ),
    placeholderData: (shown) => shown,
  });
