// OneEvent: a base of exceptions with which one event fails many operations, as the death of a rank does.
#pragma once

#include "kaon/engine/api.h"

namespace KAON_API kaon {

// Where all causes of a failure are of one such kind, a wait throws the first of them in place of an AggregateError: a
// program catches the kind that it expects, however many operations were under way. So does waitall().
class OneEvent {
 public:
  virtual ~OneEvent() = default;

 protected:
  OneEvent() = default;
  OneEvent(const OneEvent&) = default;
  OneEvent& operator=(const OneEvent&) = default;
};

}  // namespace kaon
