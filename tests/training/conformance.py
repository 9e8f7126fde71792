"""What every `RestorationTask` does."""

import os
import signal
from dataclasses import replace

import pytest
import torch

from fwnet.training import RestorationTask, TrainingConfig, TrainingRun, train
from tests.trainings import assert_same

CONFIG = TrainingConfig(num_epochs=2, batch_size=4, learning_rate=0.01, average=0.9)
ALL = slice(None)


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


class Interrupted(RestorationTask):
    """Ctrl-C in some step."""

    left = 0

    def loss(self, model, *batch):
        type(self).left -= 1
        if type(self).left == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return super().loss(model, *batch)


class TaskConformance:
    """A subclass has a function that makes tasks, and functions that make networks for them.

    Attributes:
        variants: Options of tasks that are tested.
        networks: Functions that make the same network at every call.
    """

    variants = ({},)
    networks = ()

    def task(self, **options):
        raise NotImplementedError

    @pytest.fixture
    def each_task(self):
        """Functions that make the same task again and again, one for each variant."""
        return [lambda options=options: self.task(**options) for options in self.variants]

    def test_batches_depend_on_step_and_seed_alone(self, each_task):
        for make in each_task:
            first = make().batch(7, ALL, CONFIG)
            other = make()
            torch.manual_seed(5)
            other.batch(3, ALL, CONFIG)
            assert same(other.batch(7, ALL, CONFIG), first)
            assert same(other.to(torch.device("cpu")).batch(7, ALL, CONFIG), first)
            assert not same(other.batch(8, ALL, CONFIG), first)
            assert not same(other.batch(7, ALL, replace(CONFIG, seed=1)), first)
            assert same(other.batch(7, ALL, replace(CONFIG, learning_rate=1.0)), first)

    def test_processes_share_a_batch(self, each_task):
        for make in each_task:
            one = make()
            whole = one.batch(2, ALL, CONFIG)
            parts = [one.batch(2, rows, CONFIG) for rows in (slice(0, 1), slice(1, 4))]
            assert same([torch.cat(pair) for pair in zip(*parts, strict=True)], whole)

    def test_an_epoch_has_as_many_steps_as_its_crops_fill(self):
        for num_crops, num_steps in ((40, 10), (43, 10), (1, 1)):
            assert self.task(crops_per_epoch=num_crops).steps_per_epoch(CONFIG) == num_steps

    def test_without_images_to_validate_with_there_is_no_figure(self):
        alone = self.task(validated=False)
        assert alone.validate(lambda x: x) is None
        assert alone.validate_baseline() is None

    @pytest.mark.parametrize("name", ["crop_size", "crops_per_epoch"])
    @pytest.mark.parametrize("value", [0, -3, 1.5])
    def test_counts(self, name, value):
        with pytest.raises(ValueError, match=f"{name} must be an integer >= 1, got {value}"):
            self.task(**{name: value})

    @pytest.mark.parametrize("left", [3, 10])
    def test_an_interruption_changes_nothing(self, tmp_path, left):
        for index, make in enumerate(self.networks):
            whole, stopped, resumed = make(), make(), make()
            train(whole, self.task(), CONFIG, keep_best=True)
            Interrupted.left = left
            run = TrainingRun(folder=tmp_path / str(index))
            with pytest.raises(KeyboardInterrupt):
                train(stopped, self.task(kind=Interrupted), CONFIG, run, keep_best=True)
            train(resumed, self.task(), CONFIG, replace(run, resume=True), keep_best=True)
            assert_same(resumed.state_dict(), whole.state_dict())
