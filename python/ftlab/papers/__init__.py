"""Papers: published results, run again, and a verdict for every claim.

A paper is one module: source, published values, setup, studies, claims, tables and figures. ``frame`` runs it,
``report`` writes it down, ``PAPERS`` is the list of them.
"""

from ftlab.papers.channel_aware_buffer import PAPER as CHANNEL_AWARE_BUFFER
from ftlab.papers.characterization import PAPER as CHARACTERIZATION
from ftlab.papers.frame import Claim, Done, Paper, Results, Size, Table, judge, last_claims, run_paper
from ftlab.papers.lsb_backup import PAPER as LSB_BACKUP
from ftlab.papers.mapping_cache import PAPER as MAPPING_CACHE
from ftlab.papers.nvm_cdm import PAPER as NVM_CDM
from ftlab.papers.reference import PAPER as REFERENCE
from ftlab.papers.write_amplification import PAPER as WRITE_AMPLIFICATION

PAPERS: dict[str, Paper] = {
    paper.name: paper
    for paper in (
        REFERENCE,
        WRITE_AMPLIFICATION,
        MAPPING_CACHE,
        LSB_BACKUP,
        CHANNEL_AWARE_BUFFER,
        NVM_CDM,
        CHARACTERIZATION,
    )
}

__all__ = ["PAPERS", "Claim", "Done", "Paper", "Results", "Size", "Table", "judge", "last_claims", "run_paper"]
