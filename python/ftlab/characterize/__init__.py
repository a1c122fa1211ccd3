"""Characterization: a drive learned from the outside, how sure that is, and its model.

``target`` is what is measured, ``scenarios`` how, ``flow`` in which order and until when. ``describe`` makes a device
file of what was found, ``compare`` holds a model against its drive, ``population`` draws drives to be judged by.
"""

from ftlab.characterize.flow import Characterization, Correction, Finding, Flow, characterize
from ftlab.characterize.target import Batch, Noise, NoiseLevel, SimulatedTarget, Target, Times, open_target

__all__ = [
    "Batch",
    "Characterization",
    "Correction",
    "Finding",
    "Flow",
    "Noise",
    "NoiseLevel",
    "SimulatedTarget",
    "Target",
    "Times",
    "characterize",
    "open_target",
]
