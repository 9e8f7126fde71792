"""The paper's table of errors on handwritten digits: MLPs, LCoD, F-W Net."""

import itertools

from fwnet.experiments.claims import Claim, better, is_better, reaches
from fwnet.experiments.digits import DigitCase, outcome_of
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.pictures import Bars, panels
from fwnet.experiments.study import measure_cases

PLAIN, ADVERSARIAL = "images alone", "adversarial training"
LOGISTIC, LONG = "logistic regression on codes", "longer"
BEST = "F-W Net, trained longer"
QUANTITY, OF_ONE_SEED = "test error, %", "error of one seed, %"
MLP_DECAYS, LCOD_DECAYS = (1e-4, 5e-4), (1e-4, 1e-3)
MLPS = tuple(
    DigitCase(
        name=f"MLP {wide}+{narrow}",
        model="FeedForward",
        options={"hidden": [wide, narrow]},
        decays=MLP_DECAYS,
        training={"num_epochs": 60},
    )
    for wide, narrow in ((300, 100), (500, 150), (500, 300))
)
LCODS = tuple(
    DigitCase(
        name=f"{count}-iter LCoD",
        model="LCoD",
        options={"num_layers": count + 1, "threshold": 0.2},
        decays=LCOD_DECAYS,
        training={"learning_rate": 0.3, "num_epochs": epochs, **batches},
        pretraining={"num_epochs": epochs_on_codes, **batches},
    )
    for count, epochs, epochs_on_codes, batches in (
        (1, 50, 100, {}),
        (5, 50, 100, {}),
        # A step takes as long as ten of the others, whatever the batch size: larger batches.
        (50, 30, 40, {"batch_size": 500}),
    )
)
F_W_NETS = tuple(
    DigitCase(
        name=f"{T}-layer F-W Net",
        options={"num_layers": T, "p": 1.5},
        choices=({"radius": 50.0}, {"radius": 100.0}),
    )
    for T in (2, 3, 4)
)
NETWORKS = (*MLPS, *LCODS, *F_W_NETS)
# The errors that the paper prints.
PAPER = dict(
    zip(
        (network.name for network in NETWORKS),
        (3.05, 2.95, 1.53, 1.60, 1.47, 1.39, 2.20, 1.34, 1.25),
        strict=True,
    )
)
DEEPEST = F_W_NETS[-1].name


def measure(lab: Lab, result: Result) -> None:
    """Train every network with three seeds; the deepest once more, and longer."""
    networks = (MLPS[0], LCODS[0], F_W_NETS[-1]) if lab.quick else NETWORKS
    for one in measure_cases(lab, result, networks):
        name, records, settings = one.case.name, one.records, one.settings
        c = {"c": settings["radius"]} if "radius" in settings else {}
        decay = {"weight decay": settings["weight_decay"]}
        radius = settings["adversarial_radius"]
        for index, size in enumerate(sorted({0.0, radius})):
            outcomes = [outcome_of(record, index) for record in records]
            how = {"training": ADVERSARIAL if size else PLAIN}
            setting = {**how, **c, **decay, "adversarial radius": size}
            errors = [outcome["error"] for outcome in outcomes]
            result.add(name, setting, QUANTITY, errors, outcomes, PAPER[name])
        if "logistic_error" in records[0]:
            setting = {**c, "adversarial radius": 0.0}
            errors = one.values("logistic_error")
            result.add(name, {"training": LOGISTIC, **setting}, QUANTITY, errors)
            values = one.values("outcomes", -1, "p")
            result.add(name, {"training": "all", **setting}, "learned p", values)
        last = records[0]["outcomes"][-1]
        result.details[name] = {key: last[key] for key in ("num_weights", "num_parameters")}
        if name == DEEPEST:
            job = one.case.longer_job(lab, settings)
            outcome = outcome_of(lab.runner.run([job])[0], 0)
            setting = {"training": LONG, **c, **decay, "adversarial radius": radius}
            setting["epochs"] = len(outcome["p_by_epoch"])
            result.add(BEST, setting, OF_ONE_SEED, [outcome["error"]], [outcome])


def falls_with_every_layer(result: Result) -> tuple[bool, str]:
    """Return whether every layer makes the error smaller, without adversarial training."""
    rows = [result.find(network.name, training=PLAIN) for network in F_W_NETS]
    held = all(is_better(after, before) for before, after in itertools.pairwise(rows))
    return held, ", ".join(f"{row.method} {row.mean:.2f}" for row in rows)


EXPERIMENT = Experiment(
    "digits-error",
    "Handwritten digits: MLPs, LCoD and F-W Net",
    "F-W Net has a lower error than MLPs and LCoD with as many parameters, and it falls with every "
    "layer; joint training is marginally but consistently better than logistic regression.",
    measure,
    panels(
        *(
            Bars(quantity=QUANTITY, where={"training": how}, title=how, from_zero=True)
            for how in (PLAIN, ADVERSARIAL)
        )
    ),
    claims=(
        *(
            better(
                f"joint training of {network.name} is better than logistic regression on its codes",
                network.name,
                network.name,
                theirs_at={"training": LOGISTIC},
                training=PLAIN,
            )
            for network in F_W_NETS
        ),
        *(
            better(
                f"{DEEPEST} is better than {network.name} ({how})",
                DEEPEST,
                network.name,
                training=how,
            )
            for how in (PLAIN, ADVERSARIAL)
            for network in (*MLPS, *LCODS)
        ),
        Claim("the error falls with every layer (images alone)", falls_with_every_layer),
        *(
            reaches(
                f"{network.name} has the paper's error or less ({how})", network.name, training=how
            )
            for network in F_W_NETS
            for how in (PLAIN, ADVERSARIAL)
        ),
    ),
    columns="training",
    hidden=("c", "weight decay", "adversarial radius", "epochs"),
    needs=("MNIST",),
    note="Adversarial training adds, for every image, the point at the given distance in the "
    "direction in which its loss rises most. Radius, weight decay and adversarial radius were "
    "chosen together; rows of images alone have the same radius and decay. No image is shifted, "
    "turned or bent. Logistic regression has scikit-learn's defaults on standardized codes. The "
    "paper's numbers of parameters count the matrices; its 65,536 for LCoD is another code length.",
)
