"""Student's t: a difference, its standard error, and how well that error is known."""

from dataclasses import dataclass
from math import hypot, inf

from jaxtyping import Float
from numpy import ndarray

POWER = 0.8
"""At which minimum detectable differences are given, by convention: Cohen (1988), page 56."""


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
        """Returns a confidence interval of the difference, which excludes 0 exactly where p < 1 - level.

        Args:
            level: Its coverage, as 0.95.
        """
        from scipy.stats import t

        margin = self.error * float(t.isf((1 - level) / 2, self.freedom)) if self.error else 0.0
        return self.difference - margin, self.difference + margin

    def minimum_detectable_difference(self, alpha: float) -> float:
        """Returns the smallest true difference that this test finds with a power of 80 %.

        Found means significant and in the right direction; an error of 0 gives 0.

        Args:
            alpha: Two-sided significance level.
        """
        from scipy.optimize import brentq
        from scipy.stats import nct, t

        if self.error == 0:
            return 0.0
        critical = float(t.isf(alpha / 2, self.freedom))
        largest = 10 + 10 * critical  # the power there is nearly 1
        return self.error * float(
            brentq(lambda shift: nct.sf(critical, self.freedom, shift) - POWER, 0, largest)
        )


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
