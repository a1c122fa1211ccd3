"""Drives drawn by a seed, whose truth is known, to judge what characterization says of drives that it never saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tomli_w

from ftlab._device import Device
from ftlab.characterize.target import SECTOR_BYTES, NoiseLevel, SimulatedTarget
from ftlab.errors import ConfigError

if TYPE_CHECKING:
    from ftlab.characterize.target import Target

_KIB, _MIB = 1 << 10, 1 << 20
# A drive is at least this large, and a multiple of its buffer.
_LEAST_BYTES, _BUFFERS = 256 * _MIB, 8
_ATTEMPTS = 1000
_NOISE = (NoiseLevel(), NoiseLevel(sigma=0.01, outliers=0.01), NoiseLevel(sigma=0.05, outliers=0.01))


@dataclass(frozen=True)
class Drawn:
    """A drive of the population.

    Attributes:
        seed: The seed that it was drawn by.
        device: The drive.
        noise: How much its time stamps are disturbed.
    """

    seed: int
    device: Device
    noise: NoiseLevel

    def target(self) -> Target:
        """A fresh one."""
        from ftlab.characterize.target import Noise

        target = SimulatedTarget(self.device, seed=self.seed)
        return Noise(target, self.noise) if self.noise.sigma else target


def _drawn(random: np.random.Generator) -> dict[str, Any]:
    def one(*values: Any) -> Any:
        return values[int(random.integers(len(values)))]

    page = one(2, 4, 8, 16) * _KIB
    geometry = {
        "page_bytes": page,
        "mapping_unit_bytes": min(page, one(page, 4 * _KIB)),
        "pages_per_block": one(64, 128, 256),
        "channels": one(1, 2, 3, 4, 5, 6, 8),
        "ways": one(1, 2, 3, 4),
        "planes": one(1, 2),
    }
    timing = {
        "read_us": round(float(random.uniform(20, 90)), 1),
        "program_us": round(float(random.uniform(200, 2000)), 1),
        "erase_us": round(float(random.uniform(1000, 10000)), 0),
        "bus_mb_per_s": one(0, *np.round(random.uniform(40, 1200, 3)).tolist()),
    }
    kind = one("page", "page", "block", "bast", "fast")
    ftl: dict[str, Any] = {"kind": kind, "over_provisioning": one(0.07, 0.15, 0.28)}
    if kind == "page":
        ftl["striping"] = one("static", "dynamic")
    if kind in {"bast", "fast"}:
        ftl["log_blocks"] = one(4, 8, 16, 32, 64)
    if kind != "page":
        geometry["mapping_unit_bytes"] = page
    host = {"link_mb_per_s": one(300, 600, 4000), "overhead_us": round(float(random.uniform(0, 30)), 1)}
    buffer: dict[str, Any] = {}
    write = one("none", "through", "back")
    if write != "none":
        buffer = {"kind": "lru", "bytes": int(2 ** random.uniform(0, 6) * _MIB), "write": write}
        buffer["bytes"] -= buffer["bytes"] % page
        buffer |= {
            "access_us": round(float(random.uniform(0.5, 5)), 2),
            "hiding": round(float(random.uniform(0, 1)), 2),
        }
    planes = geometry["channels"] * geometry["ways"] * geometry["planes"]
    size = max(_LEAST_BYTES, _BUFFERS * buffer.get("bytes", 0))
    block = page * geometry["pages_per_block"]
    geometry["blocks_per_plane"] = max(24, -(-size // (planes * block)))
    drive = {"geometry": geometry, "timing": timing, "ftl": ftl, "host": host, "precondition": {"kind": "fill"}}
    return drive | ({"buffer": buffer} if buffer else {})


def draw(seed: int) -> Drawn:
    """Draw a drive; combinations that a device file refuses are drawn again.

    Raises:
        ConfigError: None of very many was accepted.
    """
    random = np.random.default_rng([seed, 18])
    problem: ConfigError | None = None
    for _ in range(_ATTEMPTS):
        described = _drawn(random)
        noise = _NOISE[int(random.integers(len(_NOISE)))]
        try:
            device = Device.parse(tomli_w.dumps({"description": f"drawn by seed {seed}", **described}), f"drive-{seed}")
        except ConfigError as error:
            problem = error
            continue
        return Drawn(seed, device, NoiseLevel(noise.sigma, noise.outliers, seed=seed))
    raise ConfigError(f"seed {seed}: no drive was accepted: {problem}")


@dataclass(frozen=True)
class Judged:
    """What characterization said of a drive, beside what is true of it.

    Attributes:
        drawn: The drive.
        verdicts: ``right``, ``wrong`` or ``silent``, for each parameter that has a truth.
        lines: What was said of each parameter that is wrong or silent, by its name.
        errors: Of the model: the error of each quantity of each unseen workload; empty where there is no model.
        requests: Requests that were sent.
    """

    drawn: Drawn
    verdicts: dict[str, str]
    lines: dict[str, str]
    errors: dict[tuple[str, str], float]
    requests: int

    @property
    def document(self) -> dict[str, Any]:
        """As a line of JSON."""
        keys = self.drawn.device.to_dict()
        return {
            "seed": self.drawn.seed,
            "ftl": keys["ftl"]["kind"],
            "buffer": keys.get("buffer", {}).get("write", "none"),
            "sigma": self.drawn.noise.sigma,
            "verdicts": self.verdicts,
            "lines": self.lines,
            "errors": {f"{workload}: {quantity}": error for (workload, quantity), error in self.errors.items()},
            "requests": self.requests,
        }


def judge(seed: int) -> Judged:
    """Characterize the drive of a seed, and hold what is found and the model against the drive, without noise."""
    from ftlab.characterize.compare import compare
    from ftlab.characterize.describe import describe
    from ftlab.characterize.flow import Flow
    from ftlab.characterize.truth import is_right, truths

    drawn = draw(seed)
    found = Flow(drawn.target(), seed=seed).run()
    verdicts, lines = {}, {}
    for name, truth in truths(drawn.device).items():
        each = found.findings[name]
        verdicts[name] = "silent" if each.status != "found" else "right" if is_right(each, truth) else "wrong"
        if verdicts[name] != "right":
            lines[name] = f"{each.status}: {each.value or each.reason}; true {truth}"
    errors = {}
    try:
        _, model, _ = describe(found, drawn.device.logical_bytes // SECTOR_BYTES)
        rows = compare(SimulatedTarget(drawn.device, seed=seed), model, seed=seed)
        errors = {(row.workload, row.quantity): row.error for row in rows}
    except ConfigError as error:
        lines["model"] = str(error)
    return Judged(drawn, verdicts, lines, errors, found.requests)
