"""The networks of the package that enlarge."""

from fwnet.experiments.claims import reaches
from fwnet.experiments.experiment import Experiment, Lab, Result
from fwnet.experiments.image_study import PSNR, ShippedTest, add_tests
from fwnet.experiments.pictures import Bars, panels
from fwnet.zoo import list_models

# Published figures of VDSR with 20 layers, which learned from the 91 images and 200 Berkeley ones.
VDSR = {
    2: {"Set5": 37.53, "Set14": 33.03},
    3: {"Set5": 33.66, "Set14": 29.77},
    4: {"Set5": 31.35, "Set14": 28.01},
}


def measure(lab: Lab, result: Result) -> None:
    """Test the networks of the package that are for images without artifacts of JPEG."""
    jobs = [
        ShippedTest(card.name, card.sha256, card.trained_for, "small" if lab.quick else "t91")
        for card in list_models("upscale")
        if "jpeg_quality" not in card.trained_for
    ]
    for job, record in zip(jobs, lab.runner.run(jobs), strict=True):
        add_tests(result, job.name, job.task, [record])
        for row in result.select(job.name):
            row.setting["scale"] = job.task["scale"]


EXPERIMENT = Experiment(
    "upscale-shipped",
    "The networks of the package that enlarge",
    "The paper has none that are deep.",
    measure,
    panels(Bars(quantity=PSNR, by="images"), width=6.5),
    claims=tuple(
        reaches(
            f"19 layers are at or above VDSR with 20 as published, × {scale} on {images}",
            f"conv_fwnet_t19.upscale_x{scale}",
            published,
            images=images,
        )
        for scale, figures in VDSR.items()
        for images, published in figures.items()
    ),
    columns="images",
    needs=("Set5", "Set14"),
    note="Weights are those of the package, with kernels in float16; all networks see the small "
    "image. Those of 19 layers learned from 91 + 199 images, VDSR from 91 + 200 Berkeley images, "
    'one of which contains "woman" of Set5. All have single seeds.',
)
