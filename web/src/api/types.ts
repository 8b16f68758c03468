/** The API's models under short names; generated types are used nowhere else by their long ones. */
import type { components } from "./schema";

type Models = components["schemas"];

export type StudyListed = Models["StudyListed"];
export type Study = Models["StudyOut"];
export type StudyState = StudyListed["state"];
export type Spec = Models["SpecOut"];
export type Share = Models["ShareOut"];
export type Held = Models["HeldOut"];
export type Budget = Models["BudgetOut"];
export type TrialListed = Models["TrialListed"];
export type TrialOut = Models["TrialOut"];
export type Trial = Models["TrialDetailOut"];
export type Attempt = Models["AttemptOut"];
export type Family = Models["FamilyOut"];
export type Notification = Models["NotificationOut"];
export type NotificationCounts = Models["NotificationCounts"];
export type Who = Models["Who"];

export type Values = Models["ValuesOut"];
export type HistoryPlot = Models["HistoryPlot"];
export type CoordinatesPlot = Models["CoordinatesPlot"];
export type ImportancesPlot = Models["ImportancesPlot"];
export type ContourPlot = Models["ContourPlot"];
export type EdfPlot = Models["EdfPlot"];
export type ParetoPlot = Models["ParetoPlot"];
export type IntermediatePlot = Models["IntermediatePlot"];
export type TimelinePlot = Models["TimelinePlot"];
export type Proposer = Models["ProposerOut"];
export type Arm = Models["ArmOut"];
export type ModelCallListed = Models["ModelCallListed"];
export type ModelCall = Models["ModelCallOut"];
export type Curve = Models["CurveOut"];
export type Candidate = Models["CandidateOut"];
export type Conversion = Models["ConversionOut"];
export type ConvertWanted = Models["ConvertWanted"];
/** What the event stream says of a study. */
export type Entry = Models["EventOut"];
/** One link of a chain. */
export type Link = Models["EntryOut"];
export type Chain = Models["ChainOut"];

export interface Page<Item> {
  readonly items: Item[];
  readonly next_cursor: string | null;
}
