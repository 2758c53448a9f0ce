package controller

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

//go:embed crd.yaml
var crd []byte

var (
	ctx    = context.Background()
	kube   *kubernetes.Clientset
	client *Clientset
)

// The controller runs for all tests; each test has a namespace of its own.
func TestMain(m *testing.M) {
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	running, stop := context.WithCancel(ctx)
	controller, err := New(running, kube, client)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ended := make(chan error)
	go func() { ended <- controller.Run(running) }()
	code := m.Run()
	stop()
	if err := <-ended; err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func setUp() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1 // no limit: the tests share a client with the controller
	if kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if client, err = NewClientset(config); err != nil {
		return err
	}
	definitions, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	var object unstructured.Unstructured
	if err := yaml.Unmarshal(crd, &object.Object); err != nil {
		return err
	}
	resource := definitions.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	if _, err := resource.Create(ctx, &object, metav1.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := client.Shops("default").List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

// eventually waits for a condition; an error of it is that it does not hold yet.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		last = condition()
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

func namespace(t *testing.T) string {
	t.Helper()
	made, err := kube.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shops-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kube.CoreV1().Namespaces().Delete(ctx, made.Name, metav1.DeleteOptions{}) })
	return made.Name
}

func createShop(t *testing.T, namespace string, replicas *int32) *Shop {
	t.Helper()
	shop, err := client.Shops(namespace).Create(ctx, &Shop{
		ObjectMeta: metav1.ObjectMeta{Name: "books"},
		Spec:       ShopSpec{Deployment: "books-web", Replicas: replicas},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return shop
}

func number(n int32) *int32 { return &n }

// hasDeployment waits for the Deployment of a shop with so many replicas.
func hasDeployment(t *testing.T, shop *Shop, replicas int32) *appsv1.Deployment {
	t.Helper()
	var found *appsv1.Deployment
	eventually(t, fmt.Sprintf("a Deployment with %d replicas", replicas), func() (err error) {
		found, err = kube.AppsV1().Deployments(shop.Namespace).Get(ctx, shop.Spec.Deployment, metav1.GetOptions{})
		if err == nil && *found.Spec.Replicas != replicas {
			err = fmt.Errorf("it has %d", *found.Spec.Replicas)
		}
		return err
	})
	return found
}

func TestAShopGetsADeployment(t *testing.T) {
	shop := createShop(t, namespace(t), nil)
	if shop.Spec.Replicas == nil || *shop.Spec.Replicas != 1 {
		t.Fatalf("the server did not set the default: %v", shop.Spec.Replicas)
	}
	deployment := hasDeployment(t, shop, 1)
	if !metav1.IsControlledBy(deployment, shop) {
		t.Fatalf("owned by %v", deployment.OwnerReferences)
	}
	if deployment.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Fatalf("the server did not set the default strategy: %v", deployment.Spec.Strategy)
	}
}

func TestADeploymentIsScaledWithItsShop(t *testing.T) {
	shop := createShop(t, namespace(t), number(2))
	hasDeployment(t, shop, 2)
	shop.Spec.Replicas = number(5)
	if _, err := client.Shops(shop.Namespace).Update(ctx, shop, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	changed := hasDeployment(t, shop, 5)
	// Someone else's change is undone.
	changed.Spec.Replicas = number(7)
	if _, err := kube.AppsV1().Deployments(shop.Namespace).Update(ctx, changed, metav1.UpdateOptions{}); err != nil && !errors.IsConflict(err) {
		t.Fatal(err)
	}
	hasDeployment(t, shop, 5)
}

func TestADeletedDeploymentIsCreatedAgain(t *testing.T) {
	shop := createShop(t, namespace(t), number(2))
	first := hasDeployment(t, shop, 2)
	if err := kube.AppsV1().Deployments(shop.Namespace).Delete(ctx, first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another Deployment", func() error {
		second, err := kube.AppsV1().Deployments(shop.Namespace).Get(ctx, first.Name, metav1.GetOptions{})
		if err == nil && second.UID == first.UID {
			err = fmt.Errorf("the first one is still there")
		}
		return err
	})
}

func TestTheStatusFollowsTheDeployment(t *testing.T) {
	shop := createShop(t, namespace(t), number(3))
	deployment := hasDeployment(t, shop, 3)
	eventually(t, "a written status", func() error {
		deployment.Status = appsv1.DeploymentStatus{Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3}
		_, err := kube.AppsV1().Deployments(shop.Namespace).UpdateStatus(ctx, deployment, metav1.UpdateOptions{})
		if errors.IsConflict(err) {
			deployment = hasDeployment(t, shop, 3)
		}
		return err
	})
	eventually(t, "the status of the shop", func() error {
		found, err := client.Shops(shop.Namespace).Get(ctx, shop.Name, metav1.GetOptions{})
		if err == nil && found.Status.AvailableReplicas != 3 {
			err = fmt.Errorf("%d available", found.Status.AvailableReplicas)
		}
		return err
	})
}

func TestTheSpecIsNotWrittenWithTheStatus(t *testing.T) {
	shop := createShop(t, namespace(t), number(2))
	hasDeployment(t, shop, 2)
	shop, err := client.Shops(shop.Namespace).Get(ctx, shop.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shop.Spec.Replicas = number(9)
	updated, err := client.Shops(shop.Namespace).UpdateStatus(ctx, shop, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *updated.Spec.Replicas != 2 {
		t.Fatalf("the status wrote %d replicas", *updated.Spec.Replicas)
	}
}

func TestADeploymentOfSomeoneElseIsLeftAlone(t *testing.T) {
	namespace := namespace(t)
	foreign := newDeployment(&Shop{
		ObjectMeta: metav1.ObjectMeta{Name: "books", Namespace: namespace},
		Spec:       ShopSpec{Deployment: "books-web", Replicas: number(1)},
	})
	foreign.OwnerReferences = nil
	if _, err := kube.AppsV1().Deployments(namespace).Create(ctx, foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	shop := createShop(t, namespace, number(4))
	eventually(t, "an Event", func() error {
		events, err := kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Shop,involvedObject.name=" + shop.Name + ",type=Warning,reason=NotOwned",
		})
		if err == nil && len(events.Items) == 0 {
			err = fmt.Errorf("there is none")
		}
		return err
	})
	hasDeployment(t, shop, 1)
}

func TestAnInvalidShopIsRejected(t *testing.T) {
	_, err := client.Shops(namespace(t)).Create(ctx, &Shop{
		ObjectMeta: metav1.ObjectMeta{Name: "books"},
		Spec:       ShopSpec{Deployment: "books-web", Replicas: number(11)},
	}, metav1.CreateOptions{})
	if !errors.IsInvalid(err) {
		t.Fatalf("expected that it is invalid: %v", err)
	}
}

func TestAStaleShopIsAConflict(t *testing.T) {
	shop := createShop(t, namespace(t), number(2))
	stale := shop.DeepCopy()
	shop.Spec.Replicas = number(3)
	if _, err := client.Shops(shop.Namespace).Update(ctx, shop, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	stale.Spec.Replicas = number(4)
	if _, err := client.Shops(shop.Namespace).Update(ctx, stale, metav1.UpdateOptions{}); !errors.IsConflict(err) {
		t.Fatalf("expected a conflict: %v", err)
	}
}
