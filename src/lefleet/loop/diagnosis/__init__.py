"""Why does nothing work? What a run that has blessed nothing is told instead of a bigger policy.

    measurements    what is judged, read from the records and files of one cycle
    judges          coverage, loss and horizon (pure)
    ranges          action range and normalisation (pure)
    page            findings in order, remarks of a decision, and diagnosis.md

Part of `loop`, which alone imports it. A success rate of zero comes from too little training, or
from data, normalisation or horizon that do not fit, far more often than from too small a policy.
Numbers come from records, from meta/ and data/ of the dataset and from the checkpoint's config and
processors; findings go into decisions, into runs/<run>/diagnosis.md and to knowledge pages.
"""

from lefleet.loop.diagnosis.page import PAGE, diagnose, diagnosis_findings, write_diagnosis

__all__ = ["PAGE", "diagnose", "diagnosis_findings", "write_diagnosis"]
