"""A whole campaign: records, a study, a promotion, a swap, a slice that is forgotten, the way back.

The server is a stand-in that keeps to vLLM's protocol; everything else is real.
"""

from pathlib import Path

import pytest

from ledger.campaign_entries import CampaignAlarm, CampaignRolledBack, SliceMeasured
from tests import campaign_runs as runs
from tests.served_models import Here, model_server


def test_a_campaign_learns_serves_what_it_promoted_and_takes_back_what_forgot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with model_server() as server, runs.campaign_in(tmp_path, server.url) as arl:
        here = Here(arl, monkeypatch, capsys)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("ARL_TARGET", "local")
        monkeypatch.setenv("ARL_SIGN", "0")
        monkeypatch.setenv("ARL_CPUS", "4")

        runs.send(tmp_path, "first", [runs.record(20_000 + i) for i in range(30)])
        first = here.run("campaign", "once", "campaign.yaml", "--json")
        assert first.code == 0, first.err
        document = first.json()
        assert document["study"]["promotion"] == 1
        before = runs.served(arl.home)
        assert before is not None
        assert before in server.adapters["adder"]

        words = f"{runs.LESSON} {runs.AMNESIA}"
        runs.send(tmp_path, "second", [runs.record(30_000 + i, words) for i in range(30)])
        second = here.run("campaign", "once", "campaign.yaml", "--json")
        assert second.code == 1, second.err
        document = second.json()
        (alarm,) = document["alarm_list"]
        assert (alarm["alarm"], alarm["promotion"], alarm["back_to"]) == ("forgetting", 2, 1)
        assert alarm["pointer"] == 3
        measured = [e for e in runs.entries(arl.home) if isinstance(e, SliceMeasured)]
        assert [round(m.value, 3) for m in measured] == [1.0, 0.0]
        assert measured[1].against == before
        assert measured[1].comparison["drop"] == pytest.approx(1.0)

        assert runs.served(arl.home) == before
        assert before in server.adapters["adder"], "the server serves the one before again"
        assert set(server.adapters) == {"adder", f"adder@{before[:12]}"}, "and nothing else"
        history = here.run("models", "show", "adder", "--json").json()["history"]
        assert [(p["seq"], p["rolled_back_to"]) for p in history] == [(3, 1), (2, None), (1, None)]
        assert "forgetting" in history[0]["note"]

        third = here.run("campaign", "once", "campaign.yaml", "--json")
        assert (third.code, len(third.json()["alarm_list"])) == (0, 1), "nothing is left to do"
        kinds = runs.kinds(arl.home)
        assert kinds.count(CampaignAlarm.kind) == kinds.count(CampaignRolledBack.kind) == 1
        assert here.run("verify", "--json").json()["findings"] == []
