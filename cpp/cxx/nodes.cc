// What std::list, std::map and std::set leave to the C++ library: links of nodes, and the balance of red-black trees. Written for this library
// from what <bits/stl_list.h> and <bits/stl_tree.h> declare, so that it is instrumented. Weak: where the library's own object is linked for
// another function, it has its way.
//
// Invariant of a tree between calls: a red node has no red child, and all ways from the root to a leaf have as many black nodes. The header
// holds the root as its parent, the first node as its left and the last as its right child; of an empty tree both are the header.
#include <list>
#include <map>

#define WEAK __attribute__((weak))

namespace std {

namespace __detail {

WEAK void _List_node_base::_M_hook(_List_node_base *const at) noexcept {
  _M_next = at;
  _M_prev = at->_M_prev;
  at->_M_prev->_M_next = this;
  at->_M_prev = this;
}

WEAK void _List_node_base::_M_unhook() noexcept {
  _M_prev->_M_next = _M_next;
  _M_next->_M_prev = _M_prev;
}

// [first, last) to the place in front of this one.
WEAK void _List_node_base::_M_transfer(_List_node_base *const first, _List_node_base *const last) noexcept {
  if (this == last || first == last)
    return;
  _List_node_base *const end = last->_M_prev, *const before = first->_M_prev;
  before->_M_next = last;
  last->_M_prev = before;
  first->_M_prev = _M_prev;
  _M_prev->_M_next = first;
  end->_M_next = this;
  _M_prev = end;
}

WEAK void _List_node_base::_M_reverse() noexcept {
  _List_node_base *node = this;
  do {
    _List_node_base *const next = node->_M_next;
    node->_M_next = node->_M_prev;
    node->_M_prev = next;
    node = next;
  } while (node != this);
}

// The nodes of two lists, of which either may be empty.
WEAK void _List_node_base::swap(_List_node_base &x, _List_node_base &y) noexcept {
  const bool x_is_empty = x._M_next == &x, y_is_empty = y._M_next == &y;
  const _List_node_base of_x = x, of_y = y;
  const auto take = [](_List_node_base &to, const _List_node_base &from, bool is_empty) {
    to._M_next = is_empty ? &to : from._M_next;
    to._M_prev = is_empty ? &to : from._M_prev;
    to._M_next->_M_prev = to._M_prev->_M_next = &to;
  };
  take(x, of_y, y_is_empty);
  take(y, of_x, x_is_empty);
}

} // namespace __detail

using Node = _Rb_tree_node_base;

static bool is_red(const Node *node) { return node && node->_M_color == _S_red; }

// Puts another node, or none, where a node hangs.
static void replace(Node *node, Node *by, Node &header) {
  Node *const parent = node->_M_parent;
  if (parent == &header)
    header._M_parent = by;
  else if (parent->_M_left == node)
    parent->_M_left = by;
  else
    parent->_M_right = by;
  if (by)
    by->_M_parent = parent;
}

// The child on the side away from `to_left` rises to the node's place, and the node becomes its child on the other side.
static void rotate(Node *node, bool to_left, Node &header) {
  Node *const child = to_left ? node->_M_right : node->_M_left;
  Node *&inner = to_left ? child->_M_left : child->_M_right;
  replace(node, child, header);
  (to_left ? node->_M_right : node->_M_left) = inner;
  if (inner)
    inner->_M_parent = node;
  inner = node;
  node->_M_parent = child;
}

WEAK void _Rb_tree_insert_and_rebalance(const bool left, Node *x, Node *parent, Node &header) noexcept {
  x->_M_parent = parent;
  x->_M_left = x->_M_right = nullptr;
  x->_M_color = _S_red;
  if (parent == &header) { // the tree was empty
    header._M_parent = header._M_left = header._M_right = x;
  } else if (left) {
    parent->_M_left = x;
    if (parent == header._M_left)
      header._M_left = x;
  } else {
    parent->_M_right = x;
    if (parent == header._M_right)
      header._M_right = x;
  }
  // Only x may be red below a red parent, which is not the root then.
  while (x->_M_parent != &header && is_red(x->_M_parent)) {
    Node *above = x->_M_parent;
    Node *const top = above->_M_parent;
    const bool is_left = above == top->_M_left;
    Node *const uncle = is_left ? top->_M_right : top->_M_left;
    if (is_red(uncle)) {
      above->_M_color = uncle->_M_color = _S_black;
      top->_M_color = _S_red;
      x = top;
      continue;
    }
    if (x == (is_left ? above->_M_right : above->_M_left)) {
      rotate(above, is_left, header);
      above = x;
    }
    above->_M_color = _S_black;
    top->_M_color = _S_red;
    rotate(top, !is_left, header);
    break;
  }
  header._M_parent->_M_color = _S_black;
}

WEAK Node *_Rb_tree_rebalance_for_erase(Node *const z, Node &header) noexcept {
  if (header._M_left == z)
    header._M_left = z->_M_right ? Node::_S_minimum(z->_M_right) : z->_M_parent;
  if (header._M_right == z)
    header._M_right = z->_M_left ? Node::_S_maximum(z->_M_left) : z->_M_parent;
  Node *x, *parent; // what lacks a black node now, perhaps none, and what it hangs from
  _Rb_tree_color gone = z->_M_color;
  if (!z->_M_left || !z->_M_right) {
    x = z->_M_left ? z->_M_left : z->_M_right;
    parent = z->_M_parent;
    replace(z, x, header);
  } else {
    // The next node in order takes z's place and color, so its own are what is gone.
    Node *const y = Node::_S_minimum(z->_M_right);
    gone = y->_M_color;
    x = y->_M_right;
    parent = y;
    if (y != z->_M_right) {
      parent = y->_M_parent;
      replace(y, x, header);
      y->_M_right = z->_M_right;
      y->_M_right->_M_parent = y;
    }
    replace(z, y, header);
    y->_M_left = z->_M_left;
    y->_M_left->_M_parent = y;
    y->_M_color = z->_M_color;
  }
  if (gone == _S_red)
    return z;
  while (parent != &header && !is_red(x)) {
    const bool is_left = x == parent->_M_left; // of two that are none, the other cannot be: it has a black node more
    Node *beside = is_left ? parent->_M_right : parent->_M_left;
    if (is_red(beside)) {
      beside->_M_color = _S_black;
      parent->_M_color = _S_red;
      rotate(parent, is_left, header);
      beside = is_left ? parent->_M_right : parent->_M_left;
    }
    Node *near = is_left ? beside->_M_left : beside->_M_right, *far = is_left ? beside->_M_right : beside->_M_left;
    if (!is_red(near) && !is_red(far)) {
      beside->_M_color = _S_red;
      x = parent;
      parent = x->_M_parent;
      continue;
    }
    if (!is_red(far)) {
      near->_M_color = _S_black;
      beside->_M_color = _S_red;
      rotate(beside, !is_left, header);
      far = beside;
      beside = near;
    }
    beside->_M_color = parent->_M_color;
    parent->_M_color = far->_M_color = _S_black;
    rotate(parent, is_left, header);
    return z;
  }
  if (x)
    x->_M_color = _S_black;
  return z;
}

} // namespace std
