// Freeing long chains of objects that own each other, without nested destructors.
#pragma once

namespace kaon {

// Deletes `object`; those of its kind whose last reference goes with it follow one by one, so that a chain of a million
// needs no more stack than one. For the destroy() of reference-counted nodes. Takes no memory: what is still to be
// deleted is linked by T::next_destroyed.
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

}  // namespace kaon
