"""
Classify by codes: a scikit-learn pipeline
==========================================

``FWNetClassifier`` is the paper's method for handwritten digits as one estimator: each class has
atoms of its own, a network learns codes that use the atoms of the right class, and then network and
softmax layer are trained together. p is learned.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import fwnet

torch.set_num_threads(1)
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

pipeline = make_pipeline(PCA(40), fwnet.FWNetClassifier(max_iter=15, random_state=0))
pipeline.fit(X_train, y_train)
classifier = pipeline[-1]
print(f"accuracy {pipeline.score(X_test, y_test):.3f}, learned p = {classifier.p_:.2f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.9), layout="constrained")
ConfusionMatrixDisplay.from_predictions(
    y_test, pipeline.predict(X_test), ax=left, colorbar=False, cmap="Blues"
)
right.plot([record["p"] for record in classifier.history_])
right.set(xlabel="epoch: first codes, then classes", ylabel="p")
right.spines[["top", "right"]].set_visible(False)
plt.show()
