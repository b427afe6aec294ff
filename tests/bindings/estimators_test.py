#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Estimators against scikit-learn's own checks. Skipped (77), which ctest counts, without numpy or scikit-learn.

  WEFT_LIBRARY=.../libweft.so estimators_test.py
"""
import pathlib
import pickle
import sys
import unittest
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings/python"))
try:
    import numpy as np
    import sklearn
    from sklearn.datasets import load_iris, make_regression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.estimator_checks import check_estimator
except ImportError as missing:
    print(f"{missing}: python3-sklearn is not here")
    sys.exit(77)

from weft.estimators import WeftClassifier, WeftRegressor  # noqa: E402

SMALL = {"hidden": (8,), "epochs": 60}


class Estimators(unittest.TestCase):
    def check(self, estimator):
        warnings.simplefilter("ignore")
        failed, count = [], 0
        for made, check in check_estimator(estimator, generate_only=True):
            count += 1
            try:
                check(made)
            except unittest.SkipTest:
                pass
            except Exception as error:  # all of them, with their names
                failed.append(f"{check.func.__name__}: {type(error).__name__}: {error}")
        self.assertEqual(failed, [], f"{len(failed)} of {count}")
        print(f"{type(estimator).__name__}: {count} checks of scikit-learn {sklearn.__version__}")

    def test_classifier_passes_the_checks(self):
        self.check(WeftClassifier(**SMALL))

    def test_regressor_passes_the_checks(self):
        self.check(WeftRegressor(**SMALL))

    def test_learns_iris_and_values(self):
        x, y = load_iris(return_X_y=True)
        model = make_pipeline(StandardScaler(), WeftClassifier(hidden=(16,), epochs=40))
        self.assertGreater(cross_val_score(model, x, y, cv=3).mean(), 0.93)  # chance is 0.33
        x, y = make_regression(200, 5, noise=1.0, random_state=1)
        self.assertGreater(WeftRegressor(epochs=100).fit(x[:150], y[:150]).score(x[150:], y[150:]), 0.95)

    def test_goes_on_sample_by_sample(self):
        x, y = load_iris(return_X_y=True)
        order = np.random.RandomState(0).permutation(len(x))
        model = WeftClassifier()
        model.partial_fit(x[order], y[order], classes=[0, 1, 2])
        for _ in range(30):
            model.partial_fit(x[order], y[order])
        self.assertGreater(model.score(x, y), 0.93)
        self.assertEqual(model.n_iter_, 31)
        self.assertRaisesRegex(ValueError, "none of classes", model.partial_fit, x[:2], [0, 7])
        again = pickle.loads(pickle.dumps(model))
        self.assertEqual(again.predict_proba(x).tolist(), model.predict_proba(x).tolist())
        again.partial_fit(x, y)

    def test_equal_seeds_give_equal_bits(self):
        x, y = load_iris(return_X_y=True)
        hashes = {WeftClassifier(epochs=2, random_state=seed).fit(x, y).mesh_.state_hash() for seed in (1, 1, 2)}
        self.assertEqual(len(hashes), 2)


if __name__ == "__main__":
    unittest.main()
