"""What every `RestorationTask` does."""

from dataclasses import replace

import pytest
import torch

from fwnet.training import TrainingConfig

CONFIG = TrainingConfig(num_epochs=2, batch_size=4, learning_rate=0.01, average=0.9)
ALL = slice(None)


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


class TaskConformance:
    """A subclass has a function that makes tasks of options, and `variants` of these options."""

    variants = ({},)

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
