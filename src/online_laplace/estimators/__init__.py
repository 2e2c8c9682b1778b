"""The scikit-learn front: estimators, the distributions they predict, and models that can be saved."""

from online_laplace.estimators.classifier import OnlineLaplaceClassifier
from online_laplace.estimators.distribution import PredictiveDistribution
from online_laplace.estimators.regressor import OnlineLaplaceRegressor
from online_laplace.estimators.saving.models import load

__all__ = ["OnlineLaplaceClassifier", "OnlineLaplaceRegressor", "PredictiveDistribution", "load"]
