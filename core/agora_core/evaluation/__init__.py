"""Measure retrievers on judged questions, compare them, and learn the weights of a hybrid."""

from agora_core.evaluation.evaluate import Comparison as Comparison
from agora_core.evaluation.evaluate import Evaluation as Evaluation
from agora_core.evaluation.evaluate import aevaluate as aevaluate
from agora_core.evaluation.evaluate import evaluate as evaluate
from agora_core.evaluation.tuning import atune_hybrid as atune_hybrid
from agora_core.evaluation.tuning import tune_hybrid as tune_hybrid
