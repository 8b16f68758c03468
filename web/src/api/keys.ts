/** The names under which answers are cached. What begins with a key is refreshed with it. */
import type { QueryKey } from "@tanstack/react-query";

type Query = Readonly<Record<string, unknown>>;

export const keys = {
  whoami: (): QueryKey => ["whoami"],
  studies: (): QueryKey => ["studies"],
  studyList: (query: Query): QueryKey => ["studies", query],
  study: (study: string): QueryKey => ["study", study],
  spec: (study: string): QueryKey => ["spec", study],
  events: (study: string): QueryKey => ["events", study],
  proposer: (study: string): QueryKey => ["proposer", study],
  trials: (study: string): QueryKey => ["trials", study],
  trialList: (study: string, query: Query): QueryKey => ["trials", study, query],
  openTrials: (study: string): QueryKey => ["trial", study],
  trial: (study: string, number: number): QueryKey => ["trial", study, number],
  values: (trial: string): QueryKey => ["values", trial],
  artifacts: (trial: string): QueryKey => ["artifacts", trial],
  logs: (trial: string): QueryKey => ["logs", trial],
  log: (attempt: string, stream: string): QueryKey => ["log", attempt, stream],
  plots: (study: string): QueryKey => ["plots", study],
  plot: (study: string, name: string, query: Query = {}): QueryKey => ["plots", study, name, query],
  candidates: (): QueryKey => ["candidate"],
  candidate: (candidate: string): QueryKey => ["candidate", candidate],
  promotions: (): QueryKey => ["promotions"],
  promotionList: (query: Query): QueryKey => ["promotions", query],
  notifications: (study: string): QueryKey => ["notifications", study],
  models: (): QueryKey => ["models"],
  entries: (query: Query): QueryKey => ["entries", query],
  chain: (chain: string): QueryKey => ["chain", chain],
  system: (): QueryKey => ["system"],
};
