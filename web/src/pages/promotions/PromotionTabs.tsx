import { LinkTabs } from "../../ui/Tabs";

/** What went through the gate, and who is in place because of it. */
export function PromotionTabs() {
  return (
    <LinkTabs
      label="Promotions and models"
      tabs={[
        { label: "Families", link: { to: "/promotions" } },
        { label: "Models", link: { to: "/models" } },
      ]}
    />
  );
}
