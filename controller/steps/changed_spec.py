"""A study file as it is now: as accepted, with every setting that was changed since."""

from controller.spec.loading import parse_study, with_setting
from controller.spec.study import StudySpec
from ledger import reads
from ledger.database import ReadSession
from ledger.entry_pages import page_of_entries
from ledger.setting_entries import SettingChanged


def load_spec(session: ReadSession, study_id: str) -> StudySpec:
    """Raises NotFound."""
    spec = parse_study(reads.get_study(session, study_id).spec)
    kinds = (SettingChanged.kind,)
    after: int | None = None
    while changes := page_of_entries(session, study_id, kinds=kinds, after=after):
        for change in changes:
            setting, after = str(change.payload["setting"]), change.seq
            spec = with_setting(spec, setting, change.payload["value"])
    return spec
