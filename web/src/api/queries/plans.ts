/** Plans: a study file checked and priced, rollouts sized. Nothing runs. */
import { api, bodyOf } from "../client";
import type { components } from "../schema";

export type CheckedStudy = components["schemas"]["CheckedStudy"];
export type PlanPrice = components["schemas"]["PlanOut"];
export type ProfilePrice = components["schemas"]["ProfilePriceOut"];
export type Range = components["schemas"]["RangeOut"];
export type RolloutQuestion = components["schemas"]["RolloutQuestion"];
export type RolloutAnswer = components["schemas"]["RolloutAnswer"];
export type RolloutRates = components["schemas"]["RolloutRates"];
export type StudyDocument = components["schemas"]["StudyToCheck"]["study"];

export const checkStudy = (study: StudyDocument) =>
  bodyOf(api.POST("/api/v1/plans/validate", { body: { study } }));

export const priceStudy = (study: StudyDocument, trial_wall_s: number | null) =>
  bodyOf(api.POST("/api/v1/plans/study", { body: { study, trial_wall_s } }));

export const sizeRollouts = (question: RolloutQuestion) =>
  bodyOf(api.POST("/api/v1/plans/rollout-gpus", { body: question }));
