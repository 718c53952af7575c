// The formula of each rule for elements, included by each of those that compute: vectors of the CPU's instruction sets
// and numbers on GPUs. They define KAON_UPDATE_INLINE and, for their type V of elements, the operators and
// fma(a, b, c) = a b + c, nfma(a, b, c) = c - a b, root, magnitude, sign, larger, bounded(x, least, most),
// nonzero_ratio(a, b), zero_unless_larger(x, bound, y) and without_denormals. All keep NaN.

// The constants of a rule for one weight.
template <class V>
struct UpdateConstants {
  bool clips, bounds, applies;
  V rescale, clip, lr, wd, keep, lr_wd, momentum, rest, beta1, rest1, beta2, rest2, epsilon, added, y, lamda, beta,
      bound;

  KAON_UPDATE_INLINE UpdateConstants(const UpdateRule& r, const UpdateNumbers& n)
      : clips(r.clip_gradient >= 0),
        bounds(r.clip_weights >= 0),
        applies(n.x != 0),
        rescale(V(r.kind == UpdateKind::lbsgd ? r.rescale_grad * n.x : r.rescale_grad)),
        clip(V(r.clip_gradient)),
        lr(V(n.lr)),
        wd(V(n.wd)),
        keep(V(kept(r, n))),
        lr_wd(V(n.lr * n.wd)),
        momentum(V(r.kind == UpdateKind::sgd_momentum ? r.momentum * n.y : r.momentum)),
        rest(V(1 - r.momentum)),
        beta1(V(r.beta1)),
        rest1(V(1 - r.beta1)),
        beta2(V(r.beta2)),
        rest2(V(1 - r.beta2)),
        epsilon(V(r.epsilon * n.x)),
        added(V(r.epsilon)),
        y(V(n.y)),
        lamda(V(r.lamda)),
        beta(V(r.beta)),
        bound(V(r.clip_weights)) {}

  // What remains of a weight when it decays.
  KAON_UPDATE_INLINE static double kept(const UpdateRule& r, const UpdateNumbers& n) {
    switch (r.kind) {
      case UpdateKind::adamw:
      case UpdateKind::adabelief:
      case UpdateKind::adadelta: return 1 - n.wd;
      case UpdateKind::signum: return 1 - n.lr * r.wd_lh;
      default: return n.wd == 0 ? 1 : 1 - n.lr * n.wd;  // also for an infinite rate
    }
  }

  KAON_UPDATE_INLINE V clipped(V g) const { return clips ? bounded(g, -clip, clip) : g; }
  KAON_UPDATE_INLINE V scaled(V grad) const { return clipped(grad * rescale); }
  KAON_UPDATE_INLINE V decayed(V grad, V weight) const { return clipped(fma(wd, weight, grad * rescale)); }
  KAON_UPDATE_INLINE V within(V weight) const { return bounds ? bounded(weight, -bound, bound) : weight; }
};

// The elements of a weight, its gradient and its states, and what they add to the two sums.
template <class V>
struct UpdateElements {
  V weight, grad, state[3], sum[2];
};

template <class V>
KAON_UPDATE_INLINE void update_means(const UpdateConstants<V>& c, V g, V& mean, V& var) {
  mean = without_denormals(fma(c.beta1, mean, c.rest1 * g));
  var = without_denormals(fma(c.beta2, var, c.rest2 * (g * g)));
}

template <class V>
KAON_UPDATE_INLINE void add_momentum(const UpdateConstants<V>& c, V g, V& weight, V& mom) {
  mom = without_denormals(nfma(c.lr, g, nfma(c.lr_wd, weight, c.momentum * mom)));
  weight = weight + mom;
}

template <class V>
KAON_UPDATE_INLINE V lamb_direction(const UpdateConstants<V>& c, V weight, V mean, V var) {
  return fma(c.wd, weight, c.y * mean / (root(var) + c.epsilon));
}

template <UpdateKind kind, class V>
KAON_UPDATE_INLINE void update_elements(const UpdateConstants<V>& c, UpdateElements<V>& e) {
  V &w = e.weight, &a = e.state[0], &b = e.state[1], &d = e.state[2];
  if constexpr (kind == UpdateKind::sgd) {
    w = nfma(c.lr, c.scaled(e.grad), c.keep * w);
  } else if constexpr (kind == UpdateKind::sgd_momentum) {
    add_momentum(c, c.scaled(e.grad), w, a);
  } else if constexpr (kind == UpdateKind::nag) {
    const V step = c.lr * fma(c.wd, w, c.scaled(e.grad));
    a = without_denormals(c.momentum * a - step);
    w = fma(c.momentum, a, w) - step;
  } else if constexpr (kind == UpdateKind::signsgd) {
    w = nfma(c.lr, sign(e.grad), c.keep * w);
  } else if constexpr (kind == UpdateKind::signum) {
    const V next = nfma(c.rest, fma(c.wd, w, c.scaled(e.grad)), c.momentum * a);
    a = without_denormals(next);
    w = fma(c.lr, sign(next), c.keep * w);
  } else if constexpr (kind == UpdateKind::lion) {
    const V g = c.scaled(e.grad);
    w = nfma(c.lr, sign(fma(c.beta1, a, c.rest1 * g)), c.keep * w);
    a = without_denormals(fma(c.beta2, a, c.rest2 * g));
  } else if constexpr (kind == UpdateKind::adagrad) {
    const V g = c.scaled(e.grad);
    a = fma(g, g, a);
    w = c.keep * w - c.lr * g / root(a + c.added);
  } else if constexpr (kind == UpdateKind::rmsprop) {
    const V g = c.decayed(e.grad, w);
    a = without_denormals(fma(c.beta1, a, c.rest1 * (g * g)));
    w = c.within(w - c.lr * g / root(a + c.added));
  } else if constexpr (kind == UpdateKind::rmsprop_centered) {
    const V g = c.decayed(e.grad, w);
    a = without_denormals(fma(c.beta1, a, c.rest1 * (g * g)));
    b = without_denormals(fma(c.beta1, b, c.rest1 * g));
    d = without_denormals(c.momentum * d - c.lr * g / root(nfma(b, b, a) + c.added));
    w = c.within(w + d);
  } else if constexpr (kind == UpdateKind::adam) {
    update_means(c, c.decayed(e.grad, w), a, b);
    w = w - c.lr * a / (root(b) + c.added);
  } else if constexpr (kind == UpdateKind::adamw) {
    update_means(c, c.scaled(e.grad), a, b);
    w = c.keep * w - c.lr * a / (root(b) + c.epsilon);
  } else if constexpr (kind == UpdateKind::adabelief) {
    const V g = c.scaled(e.grad);
    a = without_denormals(fma(c.beta1, a, c.rest1 * g));
    const V surprise = g - a;
    b = fma(c.beta2, b, c.rest2 * (surprise * surprise)) + c.added;
    w = c.keep * w - c.lr * a / (root(b) + c.epsilon);
  } else if constexpr (kind == UpdateKind::adamax) {
    const V g = c.decayed(e.grad, w);
    a = without_denormals(fma(c.beta1, a, c.rest1 * g));
    b = without_denormals(larger(c.beta2 * b, magnitude(g)));
    w = w - nonzero_ratio(c.lr * a, b);
  } else if constexpr (kind == UpdateKind::nadam) {
    const V g = c.decayed(e.grad, w);
    update_means(c, g, a, b);
    w = w - fma(c.lr, a, c.y * g) / (root(b) + c.epsilon);
  } else if constexpr (kind == UpdateKind::adadelta) {
    const V g = c.scaled(e.grad);
    a = without_denormals(fma(c.beta1, a, c.rest1 * (g * g)));
    const V step = root(b + c.added) / root(a + c.added) * g;
    b = without_denormals(fma(c.beta1, b, c.rest1 * (step * step)));
    w = c.keep * w - step;
  } else if constexpr (kind == UpdateKind::ftrl) {
    const V g = c.scaled(e.grad), n = fma(g, g, b);
    a = a + g - (root(n) - root(b)) * w / c.lr;
    b = n;
    w = zero_unless_larger(a, c.lamda, (sign(a) * c.lamda - a) / ((c.beta + root(b)) / c.lr + c.wd));
  } else if constexpr (kind == UpdateKind::ftml) {
    const V g = c.decayed(e.grad, w);
    b = without_denormals(fma(c.beta2, b, c.rest2 * (g * g)));
    const V divisor = c.lr * (root(b) + c.epsilon);
    d = without_denormals(nfma(nfma(c.beta1, a, divisor), w, fma(c.beta1, d, c.rest1 * g)));
    a = divisor;
    w = -d / divisor;
  } else if constexpr (kind == UpdateKind::dcasgd) {
    const V g = c.scaled(e.grad);
    const V slope = fma(c.lamda * g * g, w - b, fma(c.wd, w, g));
    a = without_denormals(nfma(c.lr, slope, c.momentum * a));
    b = w;
    w = w + a;
  } else if constexpr (kind == UpdateKind::lbsgd) {
    b = b + e.grad;
    if (c.applies) {
      add_momentum(c, c.scaled(b), w, a);
      b = V(0);
    }
  } else if constexpr (kind == UpdateKind::lamb_direction) {
    update_means(c, c.scaled(e.grad), a, b);
    d = lamb_direction(c, w, a, b);
  } else if constexpr (kind == UpdateKind::lamb_means) {
    update_means(c, c.scaled(e.grad), a, b);
    const V u = lamb_direction(c, w, a, b);
    e.sum[0] = fma(w, w, e.sum[0]);
    e.sum[1] = fma(u, u, e.sum[1]);
  } else if constexpr (kind == UpdateKind::lamb_step) {
    w = nfma(c.lr, lamb_direction(c, w, a, b), w);
  } else {
    static_assert(kind == UpdateKind::norms);
    const V g = e.grad * c.rescale;
    e.sum[0] = fma(w, w, e.sum[0]);
    e.sum[1] = fma(g, g, e.sum[1]);
  }
}

// Calls f.template operator()<kind>() for a rule of one step.
template <class F>
KAON_UPDATE_INLINE void with_update_kind(UpdateKind kind, const F& f) {
  switch (kind) {
    case UpdateKind::sgd: return f.template operator()<UpdateKind::sgd>();
    case UpdateKind::sgd_momentum: return f.template operator()<UpdateKind::sgd_momentum>();
    case UpdateKind::nag: return f.template operator()<UpdateKind::nag>();
    case UpdateKind::signsgd: return f.template operator()<UpdateKind::signsgd>();
    case UpdateKind::signum: return f.template operator()<UpdateKind::signum>();
    case UpdateKind::lion: return f.template operator()<UpdateKind::lion>();
    case UpdateKind::adagrad: return f.template operator()<UpdateKind::adagrad>();
    case UpdateKind::rmsprop: return f.template operator()<UpdateKind::rmsprop>();
    case UpdateKind::rmsprop_centered: return f.template operator()<UpdateKind::rmsprop_centered>();
    case UpdateKind::adam: return f.template operator()<UpdateKind::adam>();
    case UpdateKind::adamw: return f.template operator()<UpdateKind::adamw>();
    case UpdateKind::adabelief: return f.template operator()<UpdateKind::adabelief>();
    case UpdateKind::adamax: return f.template operator()<UpdateKind::adamax>();
    case UpdateKind::nadam: return f.template operator()<UpdateKind::nadam>();
    case UpdateKind::adadelta: return f.template operator()<UpdateKind::adadelta>();
    case UpdateKind::ftrl: return f.template operator()<UpdateKind::ftrl>();
    case UpdateKind::ftml: return f.template operator()<UpdateKind::ftml>();
    case UpdateKind::dcasgd: return f.template operator()<UpdateKind::dcasgd>();
    case UpdateKind::lbsgd: return f.template operator()<UpdateKind::lbsgd>();
    case UpdateKind::lamb_direction: return f.template operator()<UpdateKind::lamb_direction>();
    case UpdateKind::lamb_means: return f.template operator()<UpdateKind::lamb_means>();
    case UpdateKind::lamb_step: return f.template operator()<UpdateKind::lamb_step>();
    case UpdateKind::norms: return f.template operator()<UpdateKind::norms>();
    case UpdateKind::lars:
    case UpdateKind::lamb: return;  // two steps
  }
}
