"""
A network learns p along with its weights
=========================================

Before training, a Frank-Wolfe network of four layers is four steps of the algorithm with p = 2. It
is trained to give codes that were made with p = 1.3. Nobody tells it p.
"""

import matplotlib.pyplot as plt

import fwnet
from fwnet.training import CodeRegression, TrainingConfig, train

data = fwnet.data.synthetic_codes(p=1.3, num_train=15_000, num_test=500).scaled()
network = fwnet.FWNet.from_dictionary(
    data.dictionary, num_layers=4, radius=5.0, p=2.0, share_weights=True
)
before = fwnet.metrics.code_error(network(data.test_signals), data.test_codes).item()

# %%
# A task is what is learned, and from what; the configuration says how. The record of every epoch
# holds the learned p.

task = CodeRegression(data.signals, data.codes, data.test_signals, data.test_codes)
result = train(network, task, TrainingConfig(num_epochs=30, learning_rate=0.03, batch_size=500))
print(f"p = {network.p:.3f} after {result.seconds:.0f} s")

# %%
# For comparison: the exact solver, which is told p and the dictionary. Its error is not 0 either:
# noisy signals of 50 entries do not determine all 100 entries of a code.

exact = fwnet.solve(data.test_signals.double(), data.dictionary.double(), data.ball)
solved = fwnet.metrics.code_error(exact.code, data.test_codes.double()).item()

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot([2.0, *(record["p"] for record in result.history)], label="learned")
left.axhline(1.3, color="0.5", linestyle=":", label="p of the codes")
left.set(xlabel="epoch", ylabel="p")
right.plot([before, *(record["validation"] for record in result.history)], label="network")
right.axhline(solved, color="C1", linestyle="--", label="fwnet.solve")
right.set(
    xlabel="epoch", ylabel="squared error of a code,\nmean of new signals", ylim=(0, 1.1 * before)
)
for axis in (left, right):
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
plt.show()
