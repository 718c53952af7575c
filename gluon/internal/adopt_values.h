// Values that a parameter takes over, memory and all.
#pragma once

namespace kaon::gluon::detail {

// While one lives, Parameter::set_data() on this thread gives a parameter without values the array itself in place of a
// copy, where that is on its device. For arrays that nobody else uses.
class AdoptValues {
 public:
  AdoptValues() : outer_(active_) { active_ = true; }
  ~AdoptValues() { active_ = outer_; }
  AdoptValues(const AdoptValues&) = delete;
  AdoptValues& operator=(const AdoptValues&) = delete;
  static bool is_active() { return active_; }

 private:
  static inline thread_local bool active_ = false;
  bool outer_;
};

}  // namespace kaon::gluon::detail
