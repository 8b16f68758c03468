import { Loading, Skeleton } from "../ui/States";

/** While the code of a page comes. */
export function PageWaiting() {
  return (
    <Loading what="the page">
      <Skeleton height="2rem" />
      <br />
      <Skeleton height="24rem" />
    </Loading>
  );
}
