"""What the paper leaves open about Conv F-W Net: initial weights, eps, and its output."""

from dataclasses import replace

from fwnet.experiments.claims import Claim, is_better, number
from fwnet.experiments.denoising import PLAIN, conv_fwnet
from fwnet.experiments.experiment import Experiment, Lab, MissingRowError, Result
from fwnet.experiments.image_study import MIDDLE, ImageCase
from fwnet.experiments.image_training import Start
from fwnet.experiments.pictures import Curves, panels
from fwnet.experiments.runs import UnfinishedError
from fwnet.experiments.study import choose

BASE = conv_fwnet(4)
RANDOM = "random kernels"
STARTS: dict[str, Start] = {
    RANDOM: "random",
    "kernels of random atoms": "random atoms",
    "kernels of atoms that vary as patches do (PCA)": "pca",
    "kernels of K-SVD atoms": "ksvd",
}
VARIANTS: dict[str, ImageCase] = {
    **{name: replace(BASE, start=start) for name, start in STARTS.items()},
    **{
        f"{RANDOM}, eps = {eps:g}": replace(BASE, options={**BASE.options, "eps": eps})
        for eps in (0.0, 1e-2)
    },
}
FORMS = {"x + W_R z (ours)": BASE, "W_R z (the authors' form)": PLAIN}
RATE = 4e-3  # of the variants with other initial weights or eps
QUANTITY = "validation PSNR in dB"


def measure(lab: Lab, result: Result) -> None:
    """Train all variants for 3,000 steps, and measure PSNR of held-out images."""
    jobs = {name: case.trial(lab, {"learning_rate": RATE}) for name, case in VARIANTS.items()}
    chosen = choose(lab, result, list(FORMS.values()))
    for (name, case), settings in zip(FORMS.items(), chosen, strict=True):
        jobs[f"{name}, learning rate {settings['learning_rate']:g}"] = case.trial(lab, settings)
    known = {name: job for name, job in jobs.items() if lab.runner.can_run([job])}
    if not known:
        raise UnfinishedError(f"{result.id}: no training is finished")
    for name, record in zip(known, lab.runner.run(list(known.values())), strict=True):
        result.add(name, {"σ": MIDDLE}, QUANTITY, [record["validation"]], [record])
        result.details[name] = record["validation_by_epoch"]


def random_kernels_suffice(name: str) -> Claim:
    """Return the claim that another start is not better than random kernels."""

    def check(result: Result) -> tuple[bool, str]:
        ours, theirs = result.find(RANDOM), result.find(name)
        figures = f"{number(ours.mean)} against {number(theirs.mean)} dB"
        return is_better(theirs, ours) is not True, figures

    return Claim(f"{RANDOM} are not worse than {name}", check)


def residual_is_better(result: Result) -> tuple[bool | None, str]:
    """Return whether our form is better than the authors', each with its best learning rate."""
    found = [row for form in FORMS for row in result.rows if row.method.startswith(form)]
    if len(found) != 2:
        raise MissingRowError("one of the forms is not measured")
    ours, theirs = found
    return is_better(ours, theirs), f"{number(ours.mean)} against {number(theirs.mean)} dB"


EXPERIMENT = Experiment(
    "denoise-form",
    "Conv F-W Net: initial weights, eps, and what the output is added to",
    "No initialization strategy is straightforwardly available for convolutions; the paper uses "
    "random filters.",
    measure,
    panels(
        Curves(
            legend="beside",
            labels={"xlabel": "epoch of 1,000 steps", "ylabel": QUANTITY},
        ),
        width=8,
    ),
    claims=(
        *(random_kernels_suffice(name) for name in VARIANTS if name != RANDOM),
        Claim("adding x to the output is better than the authors' form", residual_is_better),
    ),
    columns="σ",
    needs=("BSDS500",),
    note="T = 4, 3,000 steps, one seed; variants have a learning rate of 0.004 and eps = 0.001 "
    "unless their names say otherwise, the two forms the learning rate that is best for each.",
)
