#include "kaon/ops/kernels/packed_weights.h"

#include "kaon/engine/error.h"
#include "kaon/engine/storage.h"

namespace kaon::ops {
namespace {

struct Packed final : PackedData {
  Packed(size_t at, const onednn::Desc& plain, const onednn::Desc& packed)
      : offset(at), from(plain), to(packed), data(Storage::cpu().allocate(to.get_size())) {}
  ~Packed() override { Storage::cpu().free(data, to.get_size()); }

  const size_t offset;  // in the Buffer
  const onednn::Desc from, to;
  void* const data;
};

}  // namespace

PackedWeights::PackedWeights(KernelContext& c, const onednn::Primitive& to_inner, const float* weights)
    : data_(weights) {
  if (!to_inner) return;
  obtain(c, to_inner.desc(0), to_inner.desc(1), [&](const float* from, float* to) { to_inner.run(from, to); });
}

PackedWeights::PackedWeights(KernelContext& c, const onednn::Desc& plain, const onednn::Desc& inner,
                             FunctionRef<void(const float*, float*)> make, const float* weights)
    : data_(weights) {
  obtain(c, plain, inner, make);
}

void PackedWeights::obtain(KernelContext& c, const onednn::Desc& plain, const onednn::Desc& inner,
                           FunctionRef<void(const float*, float*)> make) {
  const float* const weights = data_;
  if (const Source source = c.source_of(weights); source.buffer) {
    kept_ = find_or_pack(
        *source.buffer,
        [&](const PackedData& derived) {
          const auto* packed = dynamic_cast<const Packed*>(&derived);
          return packed && packed->offset == source.offset && packed->to == inner && packed->from == plain;
        },
        [&]() -> std::shared_ptr<const PackedData> {
          try {
            auto packed = std::make_shared<Packed>(source.offset, plain, inner);
            make(weights, static_cast<float*>(packed->data));
            return packed;
          } catch (const MemoryError&) {
            return nullptr;  // it is no fault to keep nothing
          }
        });
  }
  if (kept_) {
    data_ = static_cast<const float*>(static_cast<const Packed*>(kept_.get())->data);
  } else {
    auto* const made = static_cast<float*>(c.run.workspace(inner.get_size()));
    make(weights, made);
    data_ = made;
  }
}

}  // namespace kaon::ops
