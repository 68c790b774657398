"""Expressions of torch.distributions, with the names of `torch_face.expressions`."""

import re

__all__ = ["LAWS"]

NAME = re.compile(r"\b([A-Z]\w+|kl_divergence)(?=\()")

# Distributions, and values in their domains.
REAL = {
    "Normal(m, p)": "n[:3, :4]", "Laplace(m, p)": "d", "Cauchy(m, p)": "c", "Gumbel(m, p)": "c",
    "StudentT(p + 2.1, m, q)": "c", "Normal(0.0, 1.0)": "m", "StudentT(3.0)": "f",
    "LogNormal(m, p)": "q * 3", "HalfNormal(p)": "q * 3", "HalfCauchy(p)": "q * 3",
    "Exponential(p)": "q", "Weibull(p, q + 1)": "q * 3", "Pareto(q, p + 2.1)": "p + 1",
    "Uniform(-p, q)": "q - 0.5 * p.detach() - q.detach()", "Gamma(p, q)": "q * 4",
    "Chi2(p)": "q * 4",
    "Beta(p, q + 1)": "q", "InverseGamma(p + 2.1, q)": "q + 0.3",
}  # fmt: skip
OTHERS = {
    "VonMises(m, p)": "n[:3, :4]", "Bernoulli(q)": "b.float()", "Bernoulli(logits=m)": "b.float()",
    "Binomial(5, q)": "j.float()", "Binomial(torch.tensor(6), logits=m)": "j.float()",
    "Geometric(q)": "j.float()", "NegativeBinomial(p, q)": "j.float()", "Poisson(p)": "j.float()",
    "Dirichlet(p)": "torch.softmax(m, -1)", "Categorical(q)": "torch.tensor([0, 3, 1])",
    "Categorical(logits=m)": "torch.tensor([[2, 3, 1], [0, 1, 2]])",
    "OneHotCategorical(logits=m)": "torch.eye(4)[:3]",
    "Multinomial(6, q)": "torch.tensor([1.0, 2.0, 3.0, 0.0])",
    "MultivariateNormal(f[:3], s)": "m.T[..., :3]",
    "MultivariateNormal(f[:3], precision_matrix=s)": "m[:, :3]",
    "MultivariateNormal(m[:, :3], scale_tril=torch.linalg.cholesky(s))": "n[:3, :3]",
    "Independent(Normal(m, p), 1)": "c",
    "MixtureSameFamily(Categorical(q), Normal(m, p))": "f[:3]",
    "MixtureSameFamily(Categorical(q[0, :3]), Independent(Normal(m, p), 1))": "n[:, :4].detach()",
    "RelaxedBernoulli(torch.tensor(0.7), q)": "q * 0.9 + 0.02",
    "RelaxedOneHotCategorical(torch.tensor(0.7), logits=m)": "torch.softmax(c, -1)",
    "TransformedDistribution(Normal(m, p), [TanhTransform()])": "q",
    "TransformedDistribution(Normal(m, p), [SigmoidTransform(), AffineTransform(m, -p)])":
        "m - q * p",
    "TransformedDistribution(Normal(m, p), [StickBreakingTransform()])":
        "torch.softmax(torch.cat([m, p[:, :1]], 1), -1)",
    "TransformedDistribution(Normal(m, p), [AffineTransform(1.0, 2.0, 1), ExpTransform()])": "p",
}  # fmt: skip
WITHOUT_ENTROPY = (
    "NegativeBinomial", "Poisson", "VonMises", "Mixture", "Relaxed", "Transformed",
    "Binomial(torch", "Multinomial",
)  # fmt: skip
WITHOUT_MOMENTS = ("Relaxed", "Transformed")
TRANSFORMS = {
    "ExpTransform()": "m", "PowerTransform(2.5)": "p", "SigmoidTransform()": "m",
    "SoftplusTransform()": "m", "TanhTransform()": "m", "AffineTransform(f, q)": "m",
    "StickBreakingTransform()": "m",
    "ComposeTransform([ExpTransform(), AffineTransform(f, q)])": "m",
    "ComposeTransform([AffineTransform(f, q), StickBreakingTransform()])": "m",
    "IndependentTransform(TanhTransform(), 1)": "c", "ExpTransform().inv": "p",
}  # fmt: skip
DIVERGENCES = (
    ("Normal(m, p)", "Normal(f, q)"), ("Laplace(m, p)", "Laplace(f, q)"),
    ("Gumbel(m, p)", "Gumbel(f, q + 1)"), ("LogNormal(m, p)", "LogNormal(f, q)"),
    ("HalfNormal(p)", "HalfNormal(q)"), ("Exponential(p)", "Exponential(q)"),
    ("Gamma(p, q)", "Gamma(q, p)"), ("Beta(p, q)", "Beta(q, p)"), ("Dirichlet(p)", "Dirichlet(q)"),
    ("Bernoulli(q)", "Bernoulli(logits=m)"), ("Binomial(5, q)", "Binomial(5, logits=m)"),
    ("Geometric(q)", "Geometric(logits=m)"), ("Poisson(p)", "Poisson(q)"),
    ("Categorical(q)", "Categorical(logits=m)"), ("Uniform(m - q, m)", "Uniform(m - 2, m + p)"),
    ("OneHotCategorical(q)", "OneHotCategorical(logits=m)"), ("Uniform(m - q, m)", "Normal(f, p)"),
    ("Gamma(p, q)", "Exponential(p)"), ("Exponential(p)", "Gamma(p, q)"),
    ("Gamma(p, q)", "Normal(m, p)"),
    ("Exponential(p)", "Normal(m, q)"), ("Chi2(p)", "Gamma(q, p)"),
    ("Independent(Normal(m, p), 1)", "Independent(Normal(f, q), 1)"),
    ("MultivariateNormal(f[:3], s)", "MultivariateNormal(m[:, :3], precision_matrix=s)"),
)  # fmt: skip
SINGLE = (
    "Categorical(q).enumerate_support()", "OneHotCategorical(q).enumerate_support(False)",
    "Binomial(3, q).enumerate_support()", "Bernoulli(q).enumerate_support(False)",
    "Normal(0.0, f.exp()).expand((3, 4)).log_prob(m)", "Beta(p, p + 1).mode", "Beta(q, q).mode",
    "Dirichlet(p).mode",
    "Dirichlet(q).mode",
    "Binomial(5, q).mode", "NegativeBinomial(3.0, q).mode", "Weibull(p, q + 1.1).mode",
    "Categorical(q).mode", "MultivariateNormal(f[:3], s).precision_matrix",
    "MultivariateNormal(f[:3], s).scale_tril", "Bernoulli(logits=m).probs", "Bernoulli(q).logits",
    "Categorical(q).logits", "Normal(m, p).perplexity()", "Gamma(p, 1.0).mode",
    "Gamma(p, q).batch_shape",
    "Dirichlet(p).event_shape", "Independent(Dirichlet(p + c.abs()), 1).event_shape",
    "MultivariateNormal(m[:, :3], s).expand((2, 3)).log_prob(m[:, :3])",
    "MixtureSameFamily(Categorical(q), Normal(m, p)).cdf(f[:3])",
    "TransformedDistribution(Normal(m, p), [AffineTransform(m, -p)]).cdf(n[:3, :4])",
    "TransformedDistribution(Normal(m, p), [AffineTransform(m, -p)]).icdf(q)",
)  # fmt: skip


def _laws():
    for law, value in REAL.items():
        yield f"{law}.log_prob({value})"
        if not law.startswith(("StudentT", "Beta", "Gamma", "Chi2", "InverseGamma")):
            yield f"{law}.cdf({value})"
            yield f"{law}.icdf(q)"
    for law, value in OTHERS.items():
        yield f"{law}.log_prob({value})"
    for law in (*REAL, *OTHERS):
        if not law.startswith(WITHOUT_ENTROPY):
            yield f"{law}.entropy()"
        if not law.startswith(WITHOUT_MOMENTS):
            yield f"({law}.mean, {law}.variance, {law}.stddev)"
    for transform, x in TRANSFORMS.items():
        yield f"{transform}({x})"
        yield f"{transform}.log_abs_det_jacobian({x}, {transform}({x}))"
        yield f"{transform}.inv({transform}({x}))"
    for p, q in DIVERGENCES:
        yield f"kl_divergence({p}, {q})"
    yield from SINGLE


LAWS = sorted({NAME.sub(r"torch.distributions.\1", text) for text in _laws()})
