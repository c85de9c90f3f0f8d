"""Student's t: a difference, its standard error, and how well that error is known."""

from dataclasses import dataclass
from math import hypot, inf, sqrt

from jaxtyping import Float
from numpy import ndarray

POWER = 0.8
"""Of the smallest difference that a test could have seen, by convention: Cohen (1988), page 56."""


@dataclass(frozen=True)
class StudentT:
    """A difference with an estimated standard error; Student (1908), https://doi.org/10.2307/2331554.

    Attributes:
        difference: The mean difference.
        error: Its standard error; 0 where nothing varied.
        freedom: Degrees of freedom of the error.
    """

    difference: float
    error: float
    freedom: float

    @property
    def p(self) -> float:
        """The probability, were there no difference, of one at least as large to either side."""
        from scipy.stats import t

        if self.error == 0:
            return 0.0 if self.difference else 1.0
        return float(2 * t.sf(abs(self.difference) / self.error, self.freedom))

    def interval(self, level: float) -> tuple[float, float]:
        """Returns a confidence interval of the difference.

        Args:
            level: Its coverage, as 0.95.
        """
        from scipy.stats import t

        if self.error == 0:
            return self.difference, self.difference
        low, high = t.interval(level, self.freedom, loc=self.difference, scale=self.error)
        return float(low), float(high)

    def detectable(self, alpha: float) -> float:
        """Returns the smallest true difference that this test finds with a power of 80 %.

        Found means significant and in the right direction; an error of 0 gives 0.

        Args:
            alpha: Two-sided significance level.
        """
        from statsmodels.stats.power import TTestPower

        # statsmodels counts observations; with one more than degrees of freedom, effect * sqrt(observations)
        # is the difference in standard errors. Two-sided, its solver gives wrong results below 10 degrees.
        observations = self.freedom + 1
        effect = TTestPower().solve_power(
            nobs=observations, alpha=alpha / 2, power=POWER, alternative="larger"
        )
        return float(effect) * sqrt(observations) * self.error


def paired(differences: Float[ndarray, " pairs"]) -> StudentT:
    """Returns the paired t test: that of the mean of at least two differences."""
    from scipy.stats import sem

    return StudentT(float(differences.mean()), float(sem(differences)), float(len(differences) - 1))


def together(one: StudentT, other: StudentT) -> StudentT:
    """Returns the test of a difference that two independent sources of variation blur.

    Variances add; the degrees of freedom of the sum are by Satterthwaite (1946), equation 17,
    https://doi.org/10.2307/3002019.

    Args:
        one: The difference with the error from one source.
        other: The same difference with the error from the other.
    """
    error = hypot(one.error, other.error)
    parts = sum(each.error**4 / each.freedom for each in (one, other))
    return StudentT(one.difference, error, error**4 / parts if parts else inf)
