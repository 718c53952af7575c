# cmake -D ROOT=<repository> -P coroutine_traps_test.cmake: refuses the coroutine forms that g++ 12 gets wrong.
#   1. A lambda that captures by value, or a braced object of a named type, made inside a co_await or co_yield
#      expression: its members may be destroyed twice. Give it a name first, or a constructor with parentheses.
#      (Shape in braces is fine: it has a constructor and trivial members. So are bare options: {.axis = 1}.)
#   2. A structured binding on a co_await.
#   3. A coroutine lambda with captures: they die with the lambda, not with the coroutine.
cmake_minimum_required(VERSION 3.25)

string(ASCII 1 semicolon)  # stands for ";", which would split CMake's lists

# The operand of a co_await: `text` up to the bracket or semicolon that ends the expression.
function(operand text result)
  set(expression "")
  set(depth 0)
  while(depth GREATER_EQUAL 0 AND text MATCHES "^[^][(){}${semicolon}]*([][(){}${semicolon}])")
    set(piece "${CMAKE_MATCH_0}")
    set(mark "${CMAKE_MATCH_1}")
    if(mark MATCHES "[[({]")
      math(EXPR depth "${depth} + 1")
    elseif(mark MATCHES "[])}]" OR depth EQUAL 0)
      math(EXPR depth "${depth} - 1")
    endif()
    string(APPEND expression "${piece}")
    string(LENGTH "${piece}" length)
    string(SUBSTRING "${text}" ${length} -1 text)
  endwhile()
  set(${result} "${expression}" PARENT_SCOPE)
endfunction()

# Sets `result` to what is wrong with the source text, or to nothing.
function(find_trap text result)
  set(${result} "" PARENT_SCOPE)
  string(REPLACE ";" "${semicolon}" text "${text}")
  string(REGEX REPLACE "'(\\\\.|[^'\n])'" "' '" text "${text}")
  string(REGEX REPLACE "\"(\\\\.|[^\"\\\n])*\"" "\"\"" text "${text}")
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")

  if(text MATCHES "auto *&?&? *\\[[^]]*\\] *= *co_await[^${semicolon}\n]*")
    set(${result} "structured binding on a co_await: ${CMAKE_MATCH_0}" PARENT_SCOPE)
    return()
  endif()
  # what push_task is given lives as long as the coroutine
  string(REGEX REPLACE "(push_task\\([^[]*)\\[[^][]*\\]" "\\1[]" text "${text}")
  set(arguments "\\([^()]*(\\([^()]*\\)[^()]*)*\\)")
  if(text MATCHES
     "[^A-Za-z0-9_)]\\[[^][]+\\] *(${arguments})? *(mutable *)?-> *[A-Za-z_:]*(Task|AsyncGenerator|awaitable)[^a-z]")
    set(${result} "coroutine lambda with captures: ${CMAKE_MATCH_0}" PARENT_SCOPE)
    return()
  endif()

  while(text MATCHES "[^A-Za-z0-9_]co_(await|yield)[^A-Za-z0-9_]")
    string(FIND "${text}" "${CMAKE_MATCH_0}" begin)
    math(EXPR begin "${begin} + 9")  # behind the keyword
    string(SUBSTRING "${text}" ${begin} -1 text)
    string(SUBSTRING "${text}" 0 2000 ahead)
    operand("${ahead}" expression)
    string(REGEX REPLACE "-> *[A-Za-z0-9_:<>, *&]+{" "{" plain "${expression}")  # a lambda's result type
    string(REGEX REPLACE "Shape *{" "{" plain "${plain}")
    if(plain MATCHES "(^|[^]A-Za-z0-9_)])\\[([^]&[][^][]*|&[^][]*, *[^]&[ ][^][]*)\\] *[({]")
      set(${result} "lambda capturing by value in a co_await: ${expression}" PARENT_SCOPE)
      return()
    elseif(plain MATCHES "(^[ \n]*|[A-Z][A-Za-z0-9_]*|>){[ \n]*[^} \n]")
      set(${result} "braced object in a co_await or co_yield: ${expression}" PARENT_SCOPE)
      return()
    endif()
  endwhile()
endfunction()

# The check checked: what it must refuse and what it must let pass.
foreach(bad IN ITEMS
    " co_await run([s] { use(s)# })#" " co_await run([=]() { })#" " co_await run(x, [&a, b](int i) mutable { })#"
    " co_yield Batch{data, label}#" " co_yield {data, label}#" " co_await f(std::vector<int>{1, 2})#"
    " co_await f(\n    Options{.name = text})#" " auto [a, b] = co_await pair()#"
    " spawn([&]() -> Task<void> { co_return# }())#" " run([x](NDArray y) -> kaon::Task<int> { co_return 1# })#")
  string(REPLACE "#" ";" bad "${bad}")
  find_trap("${bad}" trap)
  if(NOT trap)
    message(FATAL_ERROR "The check lets this pass: ${bad}")
  endif()
endforeach()
foreach(good IN ITEMS
    " co_await run([&s] { use(s)# })#" " co_await x[0]#" " while (auto b = co_await g.next()) { f([b] { })# }"
    " co_yield Batch(data, label)#" " co_await x.reshape(Shape{2, 3})#" " co_await x.reshape({2, 3})#"
    " co_await nd.softmax(x, {.axis = 1})#" " auto l = [s] { }# co_await run(l)#" " co_await f(Batch{})#"
    " // co_await run([s] { })\n" " co_await f([](int i) -> Task<void> { co_return# }(1))#"
    " push_task(engine, {write(v)}, [&, x]() -> Task<void> { co_return# })#"
    " if (co_await ready()) { Batch b{1, 2}# }" " co_await f(\"[s] { Batch{1} }\")#")
  string(REPLACE "#" ";" good "${good}")
  find_trap("${good}" trap)
  if(trap)
    message(FATAL_ERROR "The check refuses this: ${good}\n  ${trap}")
  endif()
endforeach()

set(complaints "")
foreach(folder engine ops graph gluon examples tests bench)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.cpp)
  foreach(file IN LISTS files)
    file(READ ${ROOT}/${file} text)
    if(text MATCHES "co_await|co_yield|Task|AsyncGenerator")
      find_trap("${text}" trap)
      if(trap)
        string(REPLACE "${semicolon}" ";" trap "${trap}")
        string(APPEND complaints "\n  ${file}: ${trap}")
      endif()
    endif()
  endforeach()
endforeach()
if(complaints)
  message(FATAL_ERROR "Forms that g++ 12 gets wrong:${complaints}")
endif()
