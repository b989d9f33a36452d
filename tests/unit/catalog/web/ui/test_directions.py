"""What is said to be better of a metric: by the reader, by tags, by names; or nothing."""

import csv
from importlib.resources import files

import pytest

from mlcat_ingest.catalog.web.ui.directions import Directions

LESS = """
    valid_0-l2 cross_entropy aic bic eval_wer brier_score fpr rank_test_score
    valid_0-binary_logloss validation_0-logloss train-rmse test-mlogloss-mean val_loss
    training_log_loss eval_loss mean_fit_time eval_runtime training-multi_error
    validation_1-error@0.7 cox-nloglik tweedie-nloglik@1.5 gamma-deviance binary_crossentropy
    val_sparse_categorical_crossentropy kl_divergence kullback_leibler huber fair quantile
    MultiClass Logloss CrossEntropy QueryRMSE SMAPE MSLE PairLogit cer perplexity
    eval_perplexity fid lpips ece expected_calibration_error eer hamming_loss max_error
    mean_poisson_deviance davies_bouldin_score zero_one_loss hinge nll test_nll train/box_loss
    train_loss_epoch loss val/rmse MAE mase crps pinball_loss wape latency_ms p99_latency
    latency/p95 toxicity/v1/mean false_positive_rate false_negatives inertia error_rate log_loss
    median_absolute_error rmsle mean_absolute_scaled_error fold_3_mae cv_rmse_mean neg_accuracy
    negative_log_likelihood mse_resid duration_s word_error_rate epoch_time training_time
    mean_rank hqic loss/train valLoss best_val_loss oof_rmse rank_test_neg_log_loss val_smape
    eval/loss l1 train_mse_step dev.cer
"""
MORE = """
    neg_log_loss neg_mean_absolute_error maestro_f1 mean_test_score best_cv_score training_score
    training_roc_auc training_r2_score valid_0-auc validation_0-aucpr eval_accuracy val_acc
    ndcg@5 valid_0-ndcg@10 map@3 train-pre@5 balanced_accuracy_score matthews_corrcoef
    cohen_kappa_score explained_variance rsquared rsquared_adj silhouette_score rouge1 rougeL
    bleu iou val_mean_io_u psnr ssim recall_at_10 mrr hit_rate specificity tpr llf
    log_likelihood eval_samples_per_second episode_reward_mean exact_match
    answer_correctness/v1/mean f1_macro f1_score_weighted precision_at_3/mean top_5_accuracy
    metrics/mAP50-95 mAP d2_log_loss_score mean_test_neg_log_loss
    mean_test_neg_root_mean_squared_error AUC:type=Mu TotalF1 NDCG c_index spearmanr elbo auc_mu
    neg_brier_score eval_f1 val_AUC test/acc@1 acc1 one_minus_error average_precision gini
    NormalizedGini cosine_similarity adjusted_rand_score mutual_info_score v_measure_score
    jaccard
"""
UNKNOWN = """
    uptime realtime_share lossless_ratio std_test_score std_test_accuracy learning_rate
    grad_norm epoch value objective distance accuracy_gap accuracy_std example_count df_model
    scale intermediate_value anomaly_score risk_score system/cpu_utilization_percentage
    num_params loss_scale time_to_failure time_to_accuracy steps_until_loss timeline_score
    biased_estimate errorless x memory
    total_flos
"""


def less(name: str, **evidence: object) -> bool | None:
    found = Directions(**evidence).of(f"metrics.{name}")  # type: ignore[arg-type]
    return None if found is None else found.less


@pytest.mark.parametrize("name", LESS.split())
def test_of_a_loss_less_is_better_whatever_surrounds_its_name(name: str) -> None:
    assert less(name) is True


@pytest.mark.parametrize("name", MORE.split())
def test_of_a_score_more_is_better_whatever_surrounds_its_name(name: str) -> None:
    assert less(name) is False


@pytest.mark.parametrize("name", UNKNOWN.split())
def test_a_name_that_tells_nothing_has_no_direction(name: str) -> None:
    assert less(name) is None


def test_each_row_of_the_table_holds_as_it_is_and_of_a_validation_set() -> None:
    text = (files("mlcat_ingest.catalog.web.ui") / "metric_names.csv").read_text()
    rows = list(csv.DictReader(text.splitlines()))
    assert len({row["name"] for row in rows}) == len(rows) > 150
    for row in rows:
        expected = row["better"] == "less"
        assert row["library"]
        assert less(row["name"]) is expected, row
        assert less(f"valid_0-{row['name']}") in {expected, None}, row
        assert less(f"neg_{row['name']}") in {not expected, None}, row


def test_the_reader_goes_before_the_experiment_and_this_before_its_runs_and_the_name() -> None:
    runs = [(["metrics.auc"], {"direction": "MINIMIZE"})]
    groups = [{"source.mlcat.directions": "wer = minimize,auc=MAXIMIZE, odd, x=up"}]
    assert less("auc") is False
    assert less("auc", runs=runs) is True
    assert less("auc", runs=runs, groups=groups) is False
    assert less("auc", runs=runs, groups=groups, chosen=["metrics.auc"]) is True
    assert less("auc", chosen=["-metrics.auc"]) is False
    assert less("x", groups=groups) is None
    found = Directions(groups=groups).of("metrics.wer")
    assert str(found) == "less is better, by the experiment's tag"


@pytest.mark.parametrize(
    ("tags", "metrics"),
    [
        # As Optuna's callback for MLflow writes it, for one value and for several.
        ({"direction": "MINIMIZE"}, {"distance": True}),
        ({"direction": "['MINIMIZE', 'MAXIMIZE']"}, {"value_0": True, "value_1": False}),
        ({"direction": "['MAXIMIZE', 'MAXIMIZE']"}, {"a": False, "b": False}),
        # Its names say nothing of their order.
        ({"direction": "['MINIMIZE', 'MAXIMIZE']"}, {"a": None, "b": None}),
        ({"direction": "MINIMIZE"}, {"a": None, "b": None}),
        ({"direction": "MAXIMIZE"}, {"value": False, "other": None}),
        ({"directions": "minimize,maximize"}, {"value_0": True, "value_2": None}),
        # Its place among them has more digits than Python reads.
        ({"directions": "minimize,maximize"}, {f"value_{'9' * 5_000}": None}),
        ({"optuna.study_direction": "MAXIMIZE"}, {"value": False}),
        ({"direction": "north"}, {"distance": None}),
        ({"direction": "NOT_SET"}, {"value": None}),
    ],
)
def test_the_tags_of_optuna_say_which_values_are_better(
    tags: dict[str, str], metrics: dict[str, bool | None]
) -> None:
    run = ([f"metrics.{name}" for name in metrics], tags)
    assert {name: less(name, runs=[run]) for name in metrics} == metrics


def test_runs_that_contradict_each_other_say_nothing() -> None:
    runs = [(["metrics.value"], {"direction": word}) for word in ("MINIMIZE", "MAXIMIZE")]
    assert less("value", runs=runs) is None
    assert less("value", runs=runs[:1]) is True
