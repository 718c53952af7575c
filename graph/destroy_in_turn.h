// Freeing long chains of objects that own each other, without nested destructors.
#pragma once

#include <vector>

namespace kaon {

// Deletes `object`; those of its kind whose last reference goes with it follow one by one, so that a chain of a million
// needs no more stack than one. For the destroy() of reference-counted nodes.
template <class T>
void destroy_in_turn(T* object) {
  static thread_local std::vector<T*>* pending = nullptr;
  if (pending) {
    pending->push_back(object);
    return;
  }
  std::vector<T*> list{object};
  pending = &list;
  while (!list.empty()) {
    T* next = list.back();
    list.pop_back();
    delete next;
  }
  pending = nullptr;
}

}  // namespace kaon
