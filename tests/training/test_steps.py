"""Single steps of training."""

from dataclasses import replace

import torch

from fwnet.models import VDSR
from fwnet.training import CodeRegression, TrainingConfig
from fwnet.training.steps import WARMUP_STEPS, TrainingStep, make_optimizer, matrix_precision

CONFIG = TrainingConfig(num_epochs=1, batch_size=4, learning_rate=0.01)


class Watched(CodeRegression):
    """Notes where batches are in memory."""

    def __init__(self):
        super().__init__(torch.zeros(4, 1), torch.zeros(4, 1))
        self.seen = []

    def loss(self, model, *batch):
        self.seen.append([(part.data_ptr(), part.stride()) for part in batch])
        x, wanted = batch
        return (model(x) - wanted).square().mean()


def batches(count):
    """Of one shape, and in memory in several orders."""
    for index in range(count):
        generator = torch.Generator().manual_seed(index)
        pair = torch.rand(2, 4, 1, 6, 5, generator=generator)
        yield tuple(pair.mT.contiguous().mT if index % 2 else pair)


def take(record):
    """Losses and weights of as many steps as are taken before a GPU would record."""
    task, model = Watched(), VDSR(3, 4, generator=torch.Generator().manual_seed(0))
    step = TrainingStep(model, task, CONFIG, make_optimizer(model, CONFIG), record)
    losses = [step(batch, 0.01 / (1 + index)) for index, batch in enumerate(batches(WARMUP_STEPS))]
    return task.seen, torch.stack(losses), model.state_dict()


def test_batches_stay_in_one_place_from_the_first_step_on():
    """A compiled model that sees others while a GPU records would be compiled anew there."""
    seen, losses, weights = take(record=True)
    assert len(seen) == WARMUP_STEPS
    assert all(places == seen[0] for places in seen)
    elsewhere, same_losses, same_weights = take(record=False)
    assert any(places != elsewhere[0] for places in elsewhere)
    torch.testing.assert_close(losses, same_losses)
    for name, weight in same_weights.items():
        torch.testing.assert_close(weights[name], weight)


def test_what_was_given_is_left_alone():
    task, model = Watched(), VDSR(3, 4)
    step = TrainingStep(model, task, CONFIG, make_optimizer(model, CONFIG), record=True)
    given = list(batches(2))
    kept = [[part.clone() for part in batch] for batch in given]
    for batch in given:
        step(batch, 0.01)
    for batch, copies in zip(given, kept, strict=True):
        assert all(torch.equal(part, copy) for part, copy in zip(batch, copies, strict=True))


def test_the_precision_of_products_is_restored():
    def now():
        cudnn = torch.backends.cudnn
        return torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.benchmark

    before = now()
    for precision, expected in (("float32", "highest"), ("tf32", "high")):
        with matrix_precision(replace(CONFIG, precision=precision)):
            assert now() == (expected, precision == "tf32", precision == "tf32")
        assert now() == before
