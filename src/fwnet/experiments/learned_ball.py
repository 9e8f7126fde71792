"""p and radius learned from signals, where those of the codes are known."""

from dataclasses import dataclass
from typing import Any

import torch

from fwnet.coding import learn_ball
from fwnet.data import keyed_generator, synthetic_codes
from fwnet.experiments.claims import Claim
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Lines, panels
from fwnet.experiments.runs import Job, Record

EXPONENTS = (1.0, 1.2, 1.3, 1.6, 2.0, 3.0)
RADII = (1.0, 2.5, 5.0, 10.0)
SEEDS = 8
UNITS = (1.0, 0.01, 100.0)  # one after the other: the result must not depend on it
P, RADIUS, DOUBTED = "learned p", "learned radius by the true one", "share with a warning"
TRIALS = "trials"


@dataclass(frozen=True)
class BallTrial(Job):
    """Signals of codes in a known ball, with noise, and the ball that is learned from them.

    Attributes:
        p: Exponent of the ball.
        radius: Its radius.
        seed: Seed of the signals.
        unit: Factor of the signals, and so of the radius.
        num_rows: Number of signals.
        num_features: Length of a signal.
        num_atoms: Length of a code.
        noise: Root mean square of the noise, by that of the signals.
    """

    p: float
    radius: float
    seed: int
    unit: float = 1.0
    num_rows: int = 400
    num_features: int = 48
    num_atoms: int = 16
    noise: float = 0.05

    def execute(self, device: torch.device) -> Record:
        """Return what was learned, with the radius by the true one."""
        data = synthetic_codes(
            self.p,
            num_train=self.num_rows,
            num_test=0,
            num_features=self.num_features,
            num_atoms=self.num_atoms,
            radius=self.radius,
            noise_variance=0.0,
            dictionary_scale=1.0,
            unit_atoms=True,
            seed=self.seed,
            dtype=torch.float64,
        )
        clean, generator = data.signals, keyed_generator(self.seed, "noise of a trial")
        noise = torch.randn(clean.shape, generator=generator, dtype=clean.dtype)
        x = self.unit * (clean + self.noise * clean.square().mean().sqrt() * noise)
        learned = learn_ball(x.to(device), data.dictionary.to(device), seed=self.seed)
        true = self.unit * self.radius
        return {
            "p": learned.p,
            "p_interval": list(learned.p_interval),
            "radius": learned.radius / true,
            "radius_interval": [end / true for end in learned.radius_interval],
            "doubts": list(learned.doubts),
            "on_the_sphere": float((data.ball.gauge(data.codes) > 0.999).double().mean()),
        }


def measure(lab: Lab, result: Result) -> None:
    """Learn every planted ball from several data sets, each in another unit."""
    planted = [(p, radius) for p in EXPONENTS for radius in RADII]
    size = {"num_rows": 40} if lab.quick else {}
    jobs = [
        BallTrial(p, radius, seed, UNITS[(index + seed) % len(UNITS)], **size)
        for seed in range(1 if lab.quick else SEEDS)
        for index, (p, radius) in enumerate(planted[5::12] if lab.quick else planted)
    ]
    records = lab.runner.run(jobs)
    result.details[TRIALS] = [
        {"p": job.p, "radius": job.radius, "unit": job.unit, "learned": record}
        for job, record in zip(jobs, records, strict=True)
    ]
    for p, radius in dict.fromkeys((job.p, job.radius) for job in jobs):
        pairs = zip(jobs, records, strict=True)
        own = [record for job, record in pairs if (job.p, job.radius) == (p, radius)]
        setting = {"true p": p, "true radius": radius}
        result.add("learn_ball", setting, P, [one["p"] for one in own], own)
        result.add("learn_ball", setting, RADIUS, [one["radius"] for one in own], own)
        result.add("learn_ball", setting, DOUBTED, [float(bool(one["doubts"])) for one in own], own)


def is_near(trial: dict[str, Any]) -> bool:
    """Return whether p is within 0.1 and the radius within 10 % of the true ones."""
    learned = trial["learned"]
    return bool(abs(learned["p"] - trial["p"]) <= 0.1 and abs(learned["radius"] - 1) <= 0.1)


def covers(trial: dict[str, Any]) -> bool:
    """Return whether both intervals hold the true value."""
    (low, high), (least, most) = (trial["learned"][f"{k}_interval"] for k in ("p", "radius"))
    return bool(low <= trial["p"] <= high and least <= 1 <= most)


def near_where_no_doubt(result: Result) -> tuple[bool, str]:
    """Return whether every ball that was learned without a warning is near the true one."""
    sure = [trial for trial in result.find_detail(TRIALS) if not trial["learned"]["doubts"]]
    count = sum(map(is_near, sure))
    return count == len(sure), f"{count} of {len(sure)} trials without a warning"


def intervals_cover(result: Result) -> tuple[bool, str]:
    """Return whether 85 % of the intervals hold the true values, where codes touch the sphere."""
    trials = result.find_detail(TRIALS)
    active = [trial for trial in trials if trial["learned"]["on_the_sphere"] >= 0.9]
    count = sum(map(covers, active))
    return count >= 0.85 * len(active), f"both intervals in {count} of {len(active)} trials"


def warned_where_wrong(result: Result) -> tuple[bool, str]:
    """Return whether every ball that is not near the true one came with a warning."""
    wrong = [trial for trial in result.find_detail(TRIALS) if not is_near(trial)]
    count = sum(bool(trial["learned"]["doubts"]) for trial in wrong)
    return count == len(wrong), f"{count} of {len(wrong)} trials"


EXPERIMENT = Experiment(
    "learned-ball",
    "p and radius learned from signals and a dictionary",
    "The paper learns p from codes; here there are only signals.",
    measure,
    panels(
        Lines(x="true p", apart="true radius", quantity=P, guide="diagonal", title="p"),
        Lines(x="true p", apart="true radius", quantity=RADIUS, guide=1.0, title="radius"),
        Lines(x="true p", apart="true radius", quantity=DOUBTED, title="warnings"),
    ),
    claims=(
        Claim("without a warning, p is within 0.1 and radius within 10 %", near_where_no_doubt),
        Claim("where p or radius is farther off, there was a warning", warned_where_wrong),
        Claim(
            "both intervals hold the true values in at least 85 % of the trials whose codes touch "
            "the sphere",
            intervals_cover,
        ),
    ),
    columns="true radius",
    note="400 signals of 48 entries, 16 atoms, noise of 5 % of the signals' root mean square; "
    "eight data sets per ball, in the units 1, 0.01 and 100 by turns. Codes are projections of "
    "y ~ N(0, 1) onto the ball. Where most y are inside already (p = 1.2 to 3 at radius 10, "
    "p = 2 and 3 at radius 5), hardly a code was made by the ball.",
)
