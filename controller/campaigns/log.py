"""What is recorded of one campaign, and the next thing to record."""

from typing import Protocol

from controller.decisions.campaigns import CampaignState, fold_campaign
from ledger.campaign_entries import CampaignEntry
from ledger.campaigns import append_campaign, campaign_facts
from ledger.database import Ledger, WriteSession
from ledger.errors import Conflict


class Maker(Protocol):
    """Makes an entry once its number is known."""

    def __call__(self, *, number: int) -> CampaignEntry: ...


class CampaignLog:
    """One campaign's entries, folded. One process writes; a second one gets a Conflict."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.name = name
        self._ledger = ledger
        self.state = CampaignState()
        self._seen = 0
        self.reload()

    def reload(self) -> CampaignState:
        """Read what is new: somebody may have stopped it."""
        with self._ledger.read() as session:
            facts = campaign_facts(session, self.name, after=self._seen)
        if facts:
            self._seen = facts[-1].seq
        return fold_campaign(((fact.entry, fact.at) for fact in facts), self.state)

    def add(self, *makers: Maker) -> None:
        """Record entries, each made with its number, in one transaction. Raises Conflict: it was
        stopped meanwhile, or another process works on it."""
        try:
            with self._ledger.write() as session:
                self.add_within(session, *makers)
        except Conflict:
            if self.reload().stopped is not None:
                raise Conflict(f"campaign {self.name} was stopped meanwhile") from None
            raise
        self.reload()

    def add_within(self, session: WriteSession, *makers: Maker) -> None:
        """The same in a transaction of the caller's, who reloads afterwards."""
        for place, make in enumerate(makers, start=1):
            append_campaign(session, make(number=self.state.number + place))
