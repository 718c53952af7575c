# cmake -D ROOT=<repository> -D SCRATCH=<folder> -P coroutine_traps_test.cmake: scripts/check-coroutines finds the
# coroutine forms that g++ 12 gets wrong, lets others pass, and finds none in the sources.
cmake_minimum_required(VERSION 3.25)
set(check ${ROOT}/scripts/check-coroutines)

function(check_sample text expected)
  string(REPLACE "#" ";" text "${text}")
  file(WRITE ${SCRATCH}/sample.cpp "Task<void> f() {\n ${text}\n}\n")
  execute_process(COMMAND ${check} ${SCRATCH}/sample.cpp RESULT_VARIABLE code OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT code EQUAL expected)
    message(FATAL_ERROR "The check's answer is ${code}, not ${expected}, for:\n${text}\n${output}")
  endif()
  if(expected EQUAL 1 AND NOT output MATCHES "sample.cpp:[2-9]: ")
    message(FATAL_ERROR "The check does not say where:\n${text}\n${output}")
  endif()
endfunction()

set(aggregate "struct Batch { NDArray data# NDArray label# }#\n ")
set(plain "struct Batch { int size = 0# float sum = 0# }#\n ")
set(made "struct Batch { Batch()# explicit Batch(NDArray x)# NDArray data# }#\n ")
foreach(bad IN ITEMS
    "co_await run([s] { use(s)# })#" "co_await run([=]() { })#" "co_await run(x, [&a, b](int i) mutable { })#"
    "co_await run([s = 1] { })#" "x = co_await autograd::record([d]() -> Task<NDArray> { co_return d# })#"
    "use(co_await x, [s] { })#" "use([s] { }, co_await x)#" "if (use(co_await x, [s] { })) { }"
    "co_yield Batch{data, label}#" "co_yield {data, label}#" "co_await f(std::vector<int>{1, 2})#"
    "co_await f(\n    Options{.name = text})#" "auto [a, b] = co_await pair()#" "const auto [a, b] = co_await pair()#"
    "spawn([&]() -> Task<void> { co_return# }())#" "run([x](NDArray y) -> kaon::Task<int> { co_return 1# })#"
    "auto body = [&x](int i) -> Task<void> { co_return# }#" "int n = 20'000# co_await run([s] { use('s')# })#"
    "co_await (later ? take(Loud()) : take(Loud()))#" "${aggregate}co_await f(Batch{})#"
    "${aggregate}co_await f(Batch(x, y))#" "/* co_await */ co_await f(Batch{x})# // co_await")
  check_sample("${bad}" 1)
endforeach()
foreach(good IN ITEMS
    "co_await run([&s] { use(s)# })#" "co_await x[0]#" "while (auto b = co_await g.next()) { f([b] { })# }"
    "co_yield Batch(data, label)#" "co_await x.reshape(Shape{2, 3})#" "co_await x.reshape({2, 3})#"
    "co_await nd.softmax(x, {.axis = 1})#" "auto l = [s] { }# co_await run(l)#" "co_await f(Batch{})#"
    "// co_await run([s] { })\n" "co_await f([](int i) -> Task<void> { co_return# }(1))#"
    "push_task(engine, {write(v)}, [&, x]() -> Task<void> { co_return# })#"
    "co_await autograd::record([&d]() -> Task<NDArray> { co_return d# })#" "co_await nd.relu(nd.array({1, 2, 3}))#"
    "auto body = [d]() -> Task<NDArray> { co_return d# }# co_await autograd::record(body)#"
    "if (co_await ready()) { Batch b{1, 2}# }" "co_await f(\"[s] { Batch{1} }\")#" "co_await f(R\"([s] { })\")#"
    "f([s] { })# co_await x# f([s] { })#" "if (n) { f(Batch{x})# } co_await x#" "co_await (later ? a : b)#"
    "int n = 1'000'000# co_await x# f('[', [s] { })#" "${plain}co_await f(Batch{1, 2})#" "${made}co_await f(Batch{})#"
    "co_await x# } Batch g() { return Batch{1, 2}#" "/* co_await run([s] { }) */")
  check_sample("${good}" 0)
endforeach()
execute_process(COMMAND ${check} ${SCRATCH}/no_such_file.cpp RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
if(NOT code EQUAL 2)
  message(FATAL_ERROR "A file that cannot be read gives ${code}, not 2")
endif()
file(REMOVE ${SCRATCH}/sample.cpp)

set(files ${ROOT}/kaon.h ${ROOT}/asio.h)
foreach(folder engine ops graph gluon examples tests bench)
  file(GLOB_RECURSE found ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.cpp)
  list(APPEND files ${found})
endforeach()
list(FILTER files EXCLUDE REGEX "/tests/refused/")
execute_process(COMMAND ${check} ${files} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "Forms that g++ 12 gets wrong:\n${output}")
endif()
