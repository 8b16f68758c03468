/** One model: its aliases and pointer, what is noted of its promotions, and their evidence. */
import { queryOptions } from "@tanstack/react-query";
import { api, bodyOf, newKey, whileItReads } from "../client";
import { keys } from "../keys";
import type { components } from "../schema";

export type ModelDetail = components["schemas"]["ModelDetail"];
export type Alias = components["schemas"]["AliasOut"];
export type AliasWanted = components["schemas"]["AliasWanted"];
export type RollBackWanted = components["schemas"]["RollBackWanted"];
export type Campaign = components["schemas"]["CampaignOut"];
export type Checked = components["schemas"]["CheckedOut"];

export const modelQuery = (model: string) =>
  queryOptions({
    queryKey: [...keys.promotions(), "model", model],
    queryFn: ({ signal }) =>
      bodyOf(api.GET("/api/v1/models/{model}", { signal, params: { path: { model } } })),
  });

export const campaignsQuery = () =>
  queryOptions({
    queryKey: [...keys.promotions(), "campaigns"],
    queryFn: ({ signal }) => bodyOf(api.GET("/api/v1/campaigns", { signal })),
  });

const once = () => ({ "idempotency-key": newKey() });

export const setAlias = (model: string, body: AliasWanted) =>
  bodyOf(
    api.POST("/api/v1/models/{model}/aliases", {
      ...whileItReads,
      params: { path: { model }, header: once() },
      body,
    }),
  );

export const rollBack = (model: string, body: RollBackWanted) =>
  bodyOf(
    api.POST("/api/v1/models/{model}/rollback", {
      ...whileItReads,
      params: { path: { model }, header: once() },
      body,
    }),
  );

export const addNote = (model: string, number: number, note: string) =>
  bodyOf(
    api.POST("/api/v1/models/{model}/incumbents/{number}/notes", {
      params: { path: { model, number }, header: once() },
      body: { note },
    }),
  );

export const checkIncumbent = (model: string, number: number) =>
  bodyOf(
    api.GET("/api/v1/models/{model}/incumbents/{number}/check", {
      ...whileItReads,
      params: { path: { model, number } },
    }),
  );

/** Where its evidence is saved from, with the model's files or without. */
export const evidenceAddress = (model: string, number: number, with_model: boolean): string =>
  `/api/v1/models/${encodeURIComponent(model)}/incumbents/${String(number)}/evidence.tar?model=${String(with_model)}`;
