// What all losses share: options, the last steps, arguments that need not be given.
#pragma once

#include <optional>
#include <vector>

#include "kaon/engine/api.h"
#include "kaon/gluon/block.h"

namespace KAON_API kaon {
namespace gluon::loss {

struct LossOptions {
  std::optional<double> weight{};
  int batch_axis = 0;
};
static_assert(std::is_trivially_destructible_v<LossOptions>);

namespace detail {

[[noreturn]] KAON_API void throw_several(const std::string& loss, const char* argument, size_t count);

// The last steps of every loss.
template <class Derived>
class Loss : public HybridBlock<Derived> {
 public:
  auto hybrid_forward(auto F, auto pred, auto label) {
    return self().over_sample(F, weighted(self().elements(F, pred, label)));
  }
  auto hybrid_forward(auto F, auto pred, auto label, auto sample_weight) {
    return self().over_sample(F, weighted(weigh_samples(F, self().elements(F, pred, label), &sample_weight)));
  }

 protected:
  Loss(std::string_view hint, std::optional<double> weight, int batch_axis)
      : HybridBlock<Derived>(hint), weight_(weight), batch_axis_(batch_axis) {}
  int batch_axis() const { return batch_axis_; }
  // The mean, unless the derived loss has its own.
  auto over_sample(auto F, auto loss) { return F.mean(loss, {.axis = {batch_axis_}, .exclude = true}); }
  auto weighted(auto loss) { return weight_ ? loss * *weight_ : loss; }
  // In a plain product a weight (batch,) would make (batch, batch) out of (batch, 1). Null: none is given.
  template <class A>
  A weigh_samples(auto F, const A& loss, const A* sample_weight) {
    return sample_weight ? loss * F.broadcast_like(*sample_weight, loss) : loss;
  }
  // The array of an argument that is one, or a list of at most one; null for an empty list.
  template <class A, class T>
  const A* given(const T& argument, const char* name) const {
    if constexpr (std::same_as<T, A>) {
      return &argument;
    } else {
      if (argument.size() > 1) throw_several(this->class_name(), name, argument.size());
      return argument.empty() ? nullptr : argument.data();
    }
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }

  std::optional<double> weight_;
  int batch_axis_;
};

}  // namespace detail
}  // namespace gluon::loss
}  // namespace kaon
