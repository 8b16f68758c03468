/** Applies the entries of a study to the cache: a burst at once, refreshes no more often than
 * they may be. */
import type { InfiniteData, QueryClient, QueryKey } from "@tanstack/react-query";
import { keys } from "../api/keys";
import type { Entry, Page, StudyListed, TrialListed } from "../api/types";
import { effectsOf, type Effect, type TrialPatch } from "./effects";

export type TrialPages = InfiniteData<Page<TrialListed>, string | null>;

const BURST_MS = 80;
const AGAIN_MS = 1000;
export const EVENTS_KEPT = 100;

/** Whether a list shows the newest trial first and leaves none out: a new one is put on top. */
const isNewestFirst = (query: unknown): boolean =>
  typeof query === "object" &&
  query !== null &&
  "is_newest_first" in query &&
  query.is_newest_first === true;

export class EntryApplier {
  readonly #client: QueryClient;
  readonly #study: string;
  #waiting: Entry[] = [];
  #burst: ReturnType<typeof setTimeout> | undefined;
  readonly #refreshes = new Map<string, () => void>();

  constructor(client: QueryClient, study: string) {
    this.#client = client;
    this.#study = study;
  }

  add(entry: Entry): void {
    this.#waiting.push(entry);
    this.#burst ??= setTimeout(() => this.flush(), BURST_MS);
  }

  flush(): void {
    clearTimeout(this.#burst);
    this.#burst = undefined;
    const entries = this.#waiting;
    this.#waiting = [];
    if (entries.length === 0) return;
    const effects = entries.flatMap((entry) => effectsOf(this.#study, entry));
    this.#patchStudy(effects, entries);
    this.#patchTrials(effects);
    this.#keepEvents(entries);
    for (const effect of effects)
      if (effect.do === "refresh") this.#refresh(effect.key, effect.within_ms);
  }

  /** What was heard is not lost with the page: who comes back soon is shown what was kept. */
  close(): void {
    this.flush();
    for (const refreshNow of [...this.#refreshes.values()]) refreshNow();
  }

  /** Only what is on the screen is fetched; the rest is fetched when it is looked at. */
  #refresh(key: QueryKey, within_ms: number): void {
    const name = JSON.stringify(key);
    if (this.#refreshes.has(name)) return;
    const refreshNow = () => {
      clearTimeout(timer);
      this.#refreshes.delete(name);
      void this.#client.invalidateQueries({ queryKey: key });
    };
    const timer = setTimeout(refreshNow, within_ms);
    this.#refreshes.set(name, refreshNow);
  }

  /** An answer under way may be older than the entries, and is shown instead of what they say. */
  #refreshIfAsked(key: QueryKey): void {
    const asked = this.#client.getQueryState(key)?.fetchStatus ?? "idle";
    if (asked !== "idle") this.#refresh(key, AGAIN_MS);
  }

  #patchStudy(effects: readonly Effect[], entries: readonly Entry[]): void {
    const patch = Object.assign(
      {},
      ...effects.map((e) => (e.do === "patch_study" ? e.patch : {})),
    ) as object;
    const last = entries.at(-1);
    this.#client.setQueryData(keys.study(this.#study), (shown: object | undefined) =>
      shown === undefined ? undefined : { ...shown, ...patch },
    );
    this.#client.setQueriesData({ queryKey: keys.studies() }, (shown: unknown) =>
      patchStudyRow(shown, this.#study, {
        ...patch,
        ...(last === undefined
          ? {}
          : { last_event: { seq: last.seq, kind: last.kind, at: last.at } }),
      }),
    );
  }

  #patchTrials(effects: readonly Effect[]): void {
    const added: TrialListed[] = [];
    const patches = new Map<string, TrialPatch>();
    for (const effect of effects) {
      if (effect.do === "add_trial") added.unshift(effect.trial);
      if (effect.do === "patch_trial") {
        patches.set(effect.trial, { ...patches.get(effect.trial), ...effect.patch });
      }
    }
    if (added.length === 0 && patches.size === 0) return;
    const lists = this.#client.getQueryCache().findAll({ queryKey: keys.trials(this.#study) });
    for (const list of lists) {
      const is_newest_first = isNewestFirst(list.queryKey[2]);
      this.#client.setQueryData<TrialPages>(list.queryKey, (shown) =>
        shown === undefined ? undefined : patchPages(shown, is_newest_first ? added : [], patches),
      );
      // Where it belongs in another order only the server knows.
      if (!is_newest_first) this.#refresh(list.queryKey, 3000);
      else this.#refreshIfAsked(list.queryKey);
    }
  }

  #keepEvents(entries: readonly Entry[]): void {
    this.#client.setQueryData<readonly Entry[]>(keys.events(this.#study), (shown) =>
      shown === undefined ? undefined : withNewest(shown, entries),
    );
    this.#refreshIfAsked(keys.events(this.#study));
  }
}

/** The newest first, each once, at most EVENTS_KEPT. */
export function withNewest(shown: readonly Entry[], added: readonly Entry[]): readonly Entry[] {
  const newest = shown[0]?.seq ?? -1;
  const fresh = added.filter((entry) => entry.seq > newest).reverse();
  return [...fresh, ...shown].slice(0, EVENTS_KEPT);
}

/** Rows that no entry is about stay the very same objects, so nothing of them is drawn again. */
export function patchPages(
  shown: TrialPages,
  added: readonly TrialListed[],
  patches: ReadonlyMap<string, TrialPatch>,
): TrialPages {
  const known = new Set(shown.pages.flatMap((page) => page.items.map((item) => item.id)));
  // An entry that is heard again is of a trial that may stand on a page that is not loaded.
  const newest = shown.pages[0]?.items[0]?.number ?? -1;
  const fresh = added
    .filter((trial) => !known.has(trial.id) && trial.number > newest)
    .map((trial) => ({ ...trial, ...patches.get(trial.id) }));
  const pages = shown.pages.map((page, index) => {
    const is_touched = page.items.some((item) => patches.has(item.id));
    const items = is_touched
      ? page.items.map((item) => {
          const patch = patches.get(item.id);
          return patch === undefined ? item : withDuration({ ...item, ...patch });
        })
      : page.items;
    if (index === 0 && fresh.length > 0) return { ...page, items: [...fresh, ...items] };
    return items === page.items ? page : { ...page, items };
  });
  return { ...shown, pages };
}

function withDuration(trial: TrialListed): TrialListed {
  if (trial.wall_s !== null || trial.started_at === null || trial.ended_at === null) return trial;
  return { ...trial, wall_s: (Date.parse(trial.ended_at) - Date.parse(trial.started_at)) / 1000 };
}

type StudyPages = InfiniteData<Page<StudyListed>, string | null>;

function patchStudyRow(shown: unknown, study: string, patch: object): unknown {
  if (typeof shown !== "object" || shown === null || !("pages" in shown)) return shown;
  const list = shown as StudyPages;
  return {
    ...list,
    pages: list.pages.map((page) =>
      page.items.some((row) => row.study === study)
        ? {
            ...page,
            items: page.items.map((row) => (row.study === study ? { ...row, ...patch } : row)),
          }
        : page,
    ),
  };
}
