"""A difference with an interval of Student's t, from one source of error or from two independent ones."""

from dataclasses import dataclass
from math import hypot

from jaxtyping import Float
from numpy import ndarray

POWER = 0.8
"""At which minimum detectable differences are given, by convention: Cohen (1988), page 56."""

_SMALLEST_P = 1e-12


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
        from scipy.special import stdtr

        if self.error == 0:
            return 0.0 if self.difference else 1.0
        return float(2 * stdtr(self.freedom, -abs(self.difference) / self.error))

    def margin(self, alpha: float) -> float:
        """Returns how far the interval reaches to either side, at a level of 1 - alpha."""
        from scipy.special import stdtrit

        return self.error * float(-stdtrit(self.freedom, alpha / 2)) if self.error else 0.0

    def interval(self, level: float) -> tuple[float, float]:
        """Returns a confidence interval of the difference, which excludes 0 exactly where p < 1 - level.

        Args:
            level: Its coverage, as 0.95.
        """
        margin = self.margin(1 - level)
        return self.difference - margin, self.difference + margin

    def minimum_detectable_difference(self, alpha: float) -> float:
        """Returns the smallest true difference that is found with a power of 80 %.

        Found means that the interval excludes 0 on the right side; an error of 0 gives 0.

        Args:
            alpha: Two-sided significance level.
        """
        from scipy.optimize import brentq
        from scipy.stats import nct

        if self.error == 0:
            return 0.0
        critical = self.margin(alpha) / self.error
        largest = 10 + 10 * critical  # the power there is nearly 1
        shift = brentq(lambda shift: nct.sf(critical, self.freedom, shift) - POWER, 0, largest)
        return self.error * float(shift)


@dataclass(frozen=True)
class TwoErrors:
    """A difference that two independent sources of variation blur.

    The squares of their margins add up: Zou and Donner (2008), https://doi.org/10.1002/sim.3095. So the
    margin is never smaller than that of either, and a source that is known from a few values is not taken to
    be known well because the other is.

    Attributes:
        one: The difference with the error from one source.
        other: The same difference with the error from the other.
    """

    one: StudentT
    other: StudentT

    @property
    def difference(self) -> float:
        """The mean difference."""
        return self.one.difference

    @property
    def error(self) -> float:
        """The standard error: variances add."""
        return hypot(self.one.error, self.other.error)

    @property
    def p(self) -> float:
        """The alpha at which the interval begins to exclude 0."""
        from scipy.optimize import brentq

        reach = abs(self.difference)
        if self.margin(_SMALLEST_P) <= reach:
            return 0.0 if reach else 1.0
        return float(brentq(lambda alpha: self.margin(alpha) - reach, _SMALLEST_P, 1.0))

    def margin(self, alpha: float) -> float:
        """Returns how far the interval reaches to either side, at a level of 1 - alpha."""
        return hypot(self.one.margin(alpha), self.other.margin(alpha))

    def interval(self, level: float) -> tuple[float, float]:
        """As of `StudentT`."""
        margin = self.margin(1 - level)
        return self.difference - margin, self.difference + margin

    def minimum_detectable_difference(self, alpha: float) -> float:
        """As of `StudentT`; squares add up here as well."""
        return hypot(*(each.minimum_detectable_difference(alpha) for each in (self.one, self.other)))


def paired(differences: Float[ndarray, " pairs"]) -> StudentT:
    """Returns the paired t test: that of the mean of at least two differences."""
    from scipy.stats import sem

    return StudentT(float(differences.mean()), float(sem(differences)), float(len(differences) - 1))
