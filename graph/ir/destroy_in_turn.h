// Freeing long chains of objects that own each other, without nested destructors.
#pragma once

namespace kaon::graph {

// Deletes `object`, then one by one the objects of its kind whose last reference this ends, so that a chain of a
// million needs no more stack than one. For the destroy() of reference-counted nodes. Allocates nothing: the objects
// still to be deleted are linked by T::next_destroyed.
template <class T>
void destroy_in_turn(T* object) noexcept {
  static thread_local constinit bool is_running = false;
  static thread_local constinit T* pending = nullptr;
  object->next_destroyed = pending;
  pending = object;
  if (is_running) return;
  is_running = true;
  while (T* next = pending) {
    pending = next->next_destroyed;
    delete next;
  }
  is_running = false;
}

}  // namespace kaon::graph
