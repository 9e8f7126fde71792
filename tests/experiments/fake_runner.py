"""A runner that answers without doing any work."""

from fwnet.experiments import UnfinishedError


class FakeRunner:
    """Return `record(job)` for every job.

    Args:
        record: Function that returns the record of a job.
        knows: Function that returns whether a job is finished.
        finished_only: Whether only finished jobs are returned.
        num_workers: Number of workers that it claims to have.
    """

    def __init__(self, record, knows=lambda _: True, finished_only=False, num_workers=1):
        self.record, self.knows, self.finished_only = record, knows, finished_only
        self.num_workers, self.asked = num_workers, []

    def can_run(self, jobs):
        return not self.finished_only or all(map(self.knows, jobs))

    def run(self, jobs):
        self.asked += jobs
        if not self.can_run(jobs):
            raise UnfinishedError("not finished")
        return [self.record(job) for job in jobs]
