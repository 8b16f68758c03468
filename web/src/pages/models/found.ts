/** What a model's page asks for: once, for all its cards. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { incumbentsQuery } from "../../api/queries/promotions";
import { campaignsQuery, modelQuery } from "../../api/queries/registry";

export const useIncumbents = (model: string) => useInfiniteQuery(incumbentsQuery(model));

export const useModel = (model: string) => useQuery(modelQuery(model));

export const useCampaigns = () => useQuery(campaignsQuery());

export type FoundIncumbents = ReturnType<typeof useIncumbents>;
export type FoundModel = ReturnType<typeof useModel>;
