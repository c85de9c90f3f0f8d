"""Studies in worlds of known variance: how often they find what is not there, and what is."""

import numpy as np
import pytest
from scipy.stats import binom

from plugformer_ablation.judging.statistics import resampled

STUDIES = 20


@pytest.fixture(scope="module")
def simulation(benchmark):
    return benchmark("false_alarms")


def most(count):
    """Returns how many of some events of 5 % happen at most, but for one time in a thousand."""
    return binom.ppf(0.999, count, 0.05)


@pytest.mark.parametrize(
    ("seed", "liking", "blind"), [(0.25, 0.0, 1), (0.0, 0.75, 0)], ids=["luck of seeds", "luck of examples"]
)
def test_arms_that_are_alike_are_seldom_called_different(simulation, seed, liking, blind):
    """The test that is blind for the world's luck shows that there is some."""
    world = simulation.World("of one kind of luck", seed, liking)
    studies = [simulation.study(world, number, arms=3, examples=150) for number in range(STUDIES)]
    found = np.array([simulation.alarms(simulation.tested(each)) for each in studies])
    single, corrected = found[..., 2].ravel(), found[..., 3].any(axis=1)
    assert single.sum() <= most(single.size)
    assert corrected.sum() <= most(corrected.size)
    assert found[..., blind].sum() > most(single.size)


def test_an_arm_that_diverges_with_half_its_seeds_is_never_called_better(simulation):
    found = np.array([simulation.better_though_diverging(number) for number in range(1, STUDIES + 1)])
    by_survivors, by_all = found.sum(axis=0)
    assert by_survivors > STUDIES / 3
    assert by_all == 0


def test_simulated_models_vary_over_examples_as_over_the_resampled_test_sets_of_a_study(simulation):
    right = simulation.answers(simulation.WORLDS[1], 1, (0.0, 0.1), 2, examples=50)
    cells = [model[:, None].astype(float) for arm in right for model in arm]
    expected = np.cov(resampled(cells, lambda rows: float(rows.mean())))
    found = np.cov([moved for arm in simulation.scored(right) for moved in arm.resampled.values()])
    assert np.allclose(found, expected, atol=0.1 * expected.max())


def test_studies_of_every_design_without_a_difference_seldom_find_one(simulation):
    alike = simulation.WORLDS[0]
    honest = [name for name in simulation.DESIGNS if not name.startswith("settings")]
    found = [
        simulation.any_difference(simulation.DESIGNS[name], alike, number)
        for name in honest
        for number in range(5)
    ]
    assert sum(found) <= most(len(found))
