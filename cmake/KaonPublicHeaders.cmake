# Which headers are public, what they reach, and which are installed. Read by the build, at the installation and by the
# test public_headers.

# For programs that need them; kaon.h does not bring these.
set(KAON_OPTIONAL_HEADERS
  asio.h                # completion tokens: x.async_wait(token)
  eigen.h               # matrices of Eigen, and of OpenCV: the program has those libraries
  opencv.h
  comm/communicator.h   # ranks: programs of several processes
  engine/gpu_stream.h   # a stream of the program's own
  gluon/data/record_io.h  # files of records: MXNet's RecordIO and im2rec
  gluon/data/text.h  # vocabularies, WikiText
  gluon/metric/detection.h  # the mean average precision of detectors
  gluon/model_zoo/bert.h  # language models, a detector and a U-Net
  gluon/model_zoo/gpt.h
  gluon/model_zoo/ssd.h
  gluon/model_zoo/unet.h
  gluon/model_zoo/vision.h  # the nets of MXNet's model zoo by name
  gluon/kvstore/kvstore.h  # what adds up over devices
  gluon/estimator/estimator.h  # a training loop that is awaited, and what happens beside it
  gluon/estimator/event_handler.h
  gluon/estimator/handlers.h
  gluon/util/amp.h  # losses in a scale
  gluon/util/checkpoint.h  # all that training goes on from, in one file
  gluon/util/array_lists.h  # batches split over devices, gradients clipped together
  gluon/util/progress_bar.h  # for training programs, as are charts
  gluon/util/svg_chart.h
  graph/symbol_picture.h  # a program as a table, and as a picture
  interchange/load_weights.h  # files of other tools: weights into nets
  interchange/mxnet_states.h
  interchange/numpy_files.h
  interchange/onnx.h
  interchange/safetensors.h
  interchange/tensor_files.h
  interchange/torch_files.h
  graph/sparse_gradient.h  # sparse arrays, and gradients that are
  ops/sparse/sparse.h
  ops/dlpack.h          # arrays of other libraries in the process
  ops/op_def.h)         # operators of the program's own

# Sets `result` to TRUE for a header that programs may include, given by its path from the root: those directly in the
# folder of a layer or of a part of gluon, and the one of each family of operators, which has its folder's name.
function(kaon_is_public header result)
  cmake_path(GET header PARENT_PATH folder)
  cmake_path(GET folder FILENAME name)
  cmake_path(GET header STEM stem)
  if(header MATCHES "^((engine|ops|comm|graph|gluon|interchange|gluon/(loss|metric|nn|rnn|data|model_zoo|kvstore|estimator|util))/)?[a-z_0-9]+\\.h$" OR
     (folder MATCHES "^ops/" AND stem STREQUAL name))
    set(${result} TRUE PARENT_SCOPE)
  else()
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

# Sets `result` to the headers of the tree at `root` that those given reach by includes, sorted, themselves among them;
# ${result}_missing to those that are included and are not there.
function(kaon_follow_includes root result)
  set(found ${ARGN})
  set(ahead ${ARGN})
  set(missing "")
  while(ahead)
    list(POP_FRONT ahead header)
    if(NOT EXISTS ${root}/${header})
      list(APPEND missing ${header})
      continue()
    endif()
    file(STRINGS ${root}/${header} includes REGEX "^[ \t]*#[ \t]*include[ \t]*[\"<]kaon/")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE ".*[\"<]kaon/([^\">]+)[\">].*" "\\1" include "${include}")
      if(NOT include IN_LIST found)
        list(APPEND found ${include})
        list(APPEND ahead ${include})
      endif()
    endforeach()
  endwhile()
  list(SORT found)
  set(${result} ${found} PARENT_SCOPE)
  set(${result}_missing ${missing} PARENT_SCOPE)
endfunction()
